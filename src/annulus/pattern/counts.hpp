// Kept triples of any interval of rows from closed forms: no segment is enumerated, so all ranks of P = 65,536 take
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

using core::Count;

class KeptCounts {
 public:
  explicit KeptCounts(const Layout& layout);

  /// Kept (query, key, head) triples of those rows that are queries of the layout, for its share of heads and one batch
  /// entry. Costs O(pairs (documents that the rows touch + log documents)).
  Count of(Interval rows) const;
  Count of(const StoredRows& rows) const;
  Count total() const { return of(Interval{0, documents_.back()}); }

 private:
  struct PairHeads {
    Pair pair;
    Index first_offset = 0;
    std::vector<Index> heads_below;  ///< [i]: heads of used offsets first_offset ... first_offset + i - 1

    Index heads_in(Index begin, Index end) const;  ///< heads whose offset lies in [begin, end)
  };
  /// Keys that the rows before row `y` of a document of `length` rows see through a window, for one head: row x has x
  /// div r rows of its comb before it and (length - 1 - x) div r after it.
  Count in_window(const Pair& pair, Index length, Index y) const;
  /// Counts the rows before row `y` of a segment, or of a document, of `length` rows.
  Count in_segment(const PairHeads& heads, Index length, Index y) const;
  Count in_document(const PairHeads& heads, Index length, Index y) const;

  bool causal_;
  Interval queries_;
  Index keys_;
  Documents documents_;
  std::vector<PairHeads> pairs_;
};

}  // namespace annulus::pattern
