// Which query rows of other blocks see a block's keys: the mirror image of keys/read_round.hpp. Key row y of a comb
// takes in queries y, y + 1, ..., N - 1, then 0, ..., y - 1: so a block's own queries come first, then those of the
// blocks after it, upwards and round the ring, then (gradients/ordered_sums.hpp) the own queries before a key.
//
// Worked example: 12 rows in 3 blocks, key row 5 in block 1 takes in queries 5 6 7 | 8 9 10 11 | 0 1 2 3 | 4.
#pragma once

#include "annulus/pattern/hops.hpp"
#include "annulus/strategies/keys/read_round.hpp"

namespace annulus::strategies {

/// One of the rounds, for all blocks. Problem and partition are not copied.
class QueryRound {
 public:
  QueryRound(const Problem& round, const pattern::Partition& partition);

  const Problem& problem() const { return problem_; }
  /// Step 0 works on the own queries.
  std::size_t steps(int block) const { return reads(block).size() + 1; }
  /// Whose queries step s > 0 works on.
  int owner(int block, std::size_t s) const { return hops_.receive_from(block, reads(block)[s - 1]); }
  /// The rows, ascending. Those that a head picks are read with all heads, which lie beside them; where they are more
  /// than a quarter of the rows between them, all of these.
  pattern::StoredRows rows(int block, std::size_t s) const;
  static constexpr std::size_t slots = ReadRound::slots;  ///< of the i-th read in slot i mod slots
  struct Counted {
    Index rows = 0;                                ///< of all steps
    std::array<Index, QueryRound::slots> slots{};  ///< the most that a slot takes
  };
  Counted counted(int block) const;

 private:
  const std::vector<int>& reads(int block) const;

  const Problem& problem_;
  const pattern::Partition& partition_;
  const pattern::Layout layout_;  // without a mask: who sees whom, either way
  const pattern::Hops hops_;
  mutable int block_ = -1;  // asked for last
  mutable std::vector<int> reads_;
};

}  // namespace annulus::strategies
