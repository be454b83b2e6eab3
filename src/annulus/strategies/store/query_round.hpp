// Which query rows of other blocks see a block's keys: the mirror image of keys/read_round.hpp. Key row y of a comb
// takes in queries y, y + 1, ..., N - 1, then 0, ..., y - 1: so a block's own queries come first, then those of the
// blocks after it, upwards and round the ring, then (gradients/ordered_sums.hpp) the own queries before a key.
//
// Worked example: 12 rows in 3 blocks, key row 5 in block 1 takes in queries 5 6 7 | 8 9 10 11 | 0 1 2 3 | 4.
#pragma once

#include "annulus/strategies/keys/read_round.hpp"

namespace annulus::strategies {

/// Bytes of a query row with all that gradients of keys take of it: q, out, dout, normalizers and, where the store has
/// gradients of the LSE (`dlse`), these.
Index query_row_bytes(const Problem& problem, bool dlse);

/// One of the rounds, for all blocks. The keys of every step are the block's own.
class QueryRound final : public ReadRound {
 public:
  QueryRound(const Problem& round, const pattern::Partition& partition, bool dlse);

  KeyBlock form(int block, std::size_t, std::size_t) const override { return own_block({}, rows(block)); }
  /// Beside what is read: delta of a block of queries, and the larger panels of one that has more rows than the own
  /// block.
  std::vector<Index> buffer_bytes(int block) const override;

  /// The rows of what a hop brings, ascending. Those that a head picks are read with all heads, which lie beside them;
  /// where they are more than a quarter of the rows between them, all of these.
  static pattern::StoredRows rows_of(const pattern::PackedRows& picked);
  bool has_dlse() const { return dlse_; }

 private:
  Index rows_read(int block, int h) const override;
  Index bytes_read(Index rows) const override { return rows * query_row_bytes(problem(), dlse_); }
  bool reads_any(int block, int h) const override;

  const bool dlse_;
};

}  // namespace annulus::strategies
