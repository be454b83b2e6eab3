// Counts the kept triples of any interval of rows by closed forms. It visits no segment, so the counts of P = 65,536
// ranks take milliseconds.
//
// Take the queries before row y of a segment of L rows, a pair of dilation r, offset o. The comb has m rows before y
// and T rows in all. The queries keep f(m) = 1 + 2 + ... + m triples if causal, otherwise m T. m and T take two values
// each, depending on whether o is below y mod r and L mod r. So three classes of offsets cover all heads.
//
// Worked example: one document of 10 rows, pair (8, 2), one head (offset 0), causal. Row 6 is the 4th of rows 0 2 4 6:
// the rows before row 7 keep f(4) = 10. Row 8 is the first of the second segment and keeps one more.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

using core::Count;

class KeptCounts {
 public:
  explicit KeptCounts(const Layout& layout);

  /// Kept (query, key, head) triples of the given rows, as far as they are queries of the layout, for its share of
  /// heads and one batch entry. Costs O(pairs (documents that the rows touch + log documents)).
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
  /// Keys that the rows before row `y` of a document of `length` rows see through a window, for one head. In its
  /// comb, row x has x div r rows before it and (length - 1 - x) div r rows after it.
  Count in_window(const Pair& pair, Index length, Index y) const;
  /// Counts the rows before row `y` of a segment, or of a document, of `length` rows.
  Count in_segment(const PairHeads& heads, Index length, Index y) const;
  Count in_document(const PairHeads& heads, Index length, Index y) const;

  bool causal_;
  Interval queries_;
  Interval keys_;
  Documents documents_;
  std::vector<PairHeads> pairs_;
};

}  // namespace annulus::pattern
