// Kept triples of any stretch of rows from closed forms: nothing is enumerated, so all ranks of P = 65,536 take
// milliseconds.
//
// Queries before row y of a segment of L rows, pair dilation r, offset o: m = rows of the comb before y, T = rows of
// the comb. They keep f(m) = 1 + 2 + ... + m triples when causal, m T when not. m and T take two values each, depending
// on whether o lies below y mod r and L mod r, so three classes of offsets stand for all heads.
//
// Worked example: one document of 10 rows, pair (8, 2), one head (offset 0), causal. Row 6 is the 4th of rows 0 2 4 6:
// kept before row 7 is f(4) = 10; row 8 opens the second segment with one more.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

class KeptCounts {
 public:
  explicit KeptCounts(const Layout& layout);

  /// Kept (query, key, head) triples of query rows [0, row), one batch entry. A double: exact below 2^53. Costs
  /// O(pairs + log documents).
  double before(Index row) const;
  double of(const StoredRows& rows) const;
  double total() const { return before(documents_.back()); }

 private:
  struct PairHeads {
    Pair pair;
    Index first_offset = 0;
    std::vector<Index> heads_below;  ///< [i]: heads of used offsets first_offset ... first_offset + i - 1

    double heads_in(Index begin, Index end) const;  ///< heads whose offset lies in [begin, end)
  };
  double in_segment(const PairHeads& heads, Index length, Index y) const;
  double in_document(const PairHeads& heads, Index length, Index y) const;

  bool causal_;
  Documents documents_;
  std::vector<PairHeads> pairs_;
  std::vector<double> kept_below_;  ///< [d]: triples of documents 0 ... d - 1
};

}  // namespace annulus::pattern
