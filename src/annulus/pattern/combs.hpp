// Dilation is a stride: segments and combs.
//
// A pair (w, r) cuts every document into segments of w rows (the last one shorter); offset o picks the rows
// segment.begin + o, segment.begin + o + r, ... of a segment. That is a comb, and rows of a comb see each other.
//
// Worked example: one document of n = 10 rows, pair (w, r) = (8, 2), H = 4, longnet: ceil(4 / 2) = 2 heads share an
// offset.
//   segment 0..7   offset 0 (heads 0, 1): rows 0 2 4 6     offset 1 (heads 2, 3): rows 1 3 5 7
//   segment 8..9   offset 0 (heads 0, 1): row  8           offset 1 (heads 2, 3): row  9
// Query row 6 of head 0, causal, thus sees rows 0 2 4 6 through this pair: comb indices t = 0 1 2 3.
#pragma once

#include <vector>

#include "annulus/pattern/pattern.hpp"

namespace annulus::pattern {

using core::Interval;

/// Rows base, base + stride, ..., count of them; comb index t is row base + t * stride.
struct Comb {
  Index base = 0;
  Index stride = 1;
  Index count = 0;

  Index row(Index t) const { return base + t * stride; }
};

/// Comb indices [begin, end) whose rows lie in `rows`.
Interval indices_within(const Comb& comb, Interval rows);

/// An offset that some head uses in a pair, and its heads.
struct UsedOffset {
  Index offset = 0;
  HeadSet heads;
};

/// Offsets of pair `pair` that have at least one of `heads` heads; at most min(dilation, heads) of them, ascending.
std::vector<UsedOffset> used_offsets(const Pattern& pattern, Index pair, Index heads);

/// The document [begin, end) that holds global row `row`.
Interval document_of(const Documents& documents, Index row);

/// The segment of `pair` that holds global row `row`: never reaches over the borders of the row's document.
Interval segment_of(const Pair& pair, const Documents& documents, Index row);

/// Rows of `segment` picked by dilation `dilation` at `offset`; empty where the offset lies after the segment's end.
Comb comb_of(Interval segment, Index dilation, Index offset);

/// All segments of `pair` that touch `rows`, ascending.
std::vector<Interval> segments_touching(const Pair& pair, const Documents& documents, Interval rows);

}  // namespace annulus::pattern
