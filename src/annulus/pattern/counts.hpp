// Counts the kept triples of any query rows by closed forms. A (query, key, head) triple is kept if the query sees the
// key in this head. No segment is visited, so the counts of P = 65,536 ranks take milliseconds.
//
// Take the comb at offset o of a segment of L rows with dilation r, and as queries the rows of this comb before row y
// of the segment. The comb has m rows before y and T rows in all. For one head the queries keep f(m) = 1 + 2 + ... + m
// triples if causal, otherwise m T. For given y, L and r, m depends only on whether o < y mod r, and T only on whether
// o < L mod r. So the two remainders divide the offsets into three classes, and all offsets of a class have equal
// counts.
//
// Worked example: one document of 10 rows, pair (8, 2), one head (offset 0), causal. The comb has the rows 0 2 4 6
// before row 7, which keep f(4) = 10 triples. Row 8 is the first row of the second segment and keeps one more triple.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

using core::Count;

class KeptCounts {
 public:
  explicit KeptCounts(const Layout& layout);

  /// Returns the number of kept (query, key, head) triples whose query is one of the given rows and lies in
  /// Layout::queries. Counts only the heads in Layout::share, for one batch entry. Takes O(pairs x d + log(number of
  /// documents)) time for each interval, where d is the number of documents that have rows in the interval.
  Count of(Interval rows) const;
  Count of(const StoredRows& rows) const;

 private:
  struct PairHeads {
    Pair pair;
    Index first_offset = 0;
    std::vector<Index> heads_below;  ///< [i]: number of heads at used offsets first_offset ... first_offset + i - 1

    Index heads_in(Index begin, Index end) const;  ///< number of heads whose offset lies in [begin, end)
  };
  /// Returns the number of triples that the rows before row `y` of a document of `length` rows keep through a window,
  /// for one head. Row x has x div r rows of its comb before it, and (length - 1 - x) div r after it.
  Count in_window(const Pair& pair, Index length, Index y) const;
  /// Return how many triples the rows before row `y` of a segment or of a document keep, in all heads of the share.
  /// `length`: number of rows of the segment or the document.
  Count in_segment(const PairHeads& heads, Index length, Index y) const;
  Count in_document(const PairHeads& heads, Index length, Index y) const;

  bool causal_;
  Interval queries_;
  Interval keys_;
  Documents documents_;
  std::vector<PairHeads> pairs_;
};

}  // namespace annulus::pattern
