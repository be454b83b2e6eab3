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
//
// A window of dilation r is r combs of the whole document, offsets 0 ... r - 1, all heads at each of them: what a row
// sees of its comb is a band of comb indices. Worked example: left 2, r = 3, causal: row 10 is t = 3 of the comb 1 4 7
// 10 ... and sees t = 1 2 3.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "annulus/core/work_item.hpp"
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

/// Offsets of pair `pair` that have at least one of `heads` heads, ascending; at most min(dilation, heads) of them, of
/// a window all that have a row among `rows` rows.
std::vector<UsedOffset> used_offsets(const Pattern& pattern, Index pair, Index heads,
                                     Index rows = std::numeric_limits<Index>::max());

/// The combs of one pair by the rows that they have. A window of dilation r has r of them in every document, of which
/// few have a row among few rows; they are not listed, for r may be 10^12.
class PairCombs {
 public:
  PairCombs(const Pattern& pattern, Index pair, Index heads);

  /// Those that lead to a head, ascending; of a window its first one.
  const std::vector<UsedOffset>& offsets() const { return offsets_; }

  /// visit(offset, i) for each offset with a row of the segment in `rows`, ascending; it is offsets()[i], except that
  /// i is 0 for all of a window.
  /// Worked example: dilation 8, segment 0 ... 99, rows 14 15 16: offsets 0, 6, 7.
  template <class Visit>
  void visit(Interval segment, Interval rows, Visit&& visit) const {
    rows = core::intersect(rows, segment);
    if (rows.empty() || offsets_.empty()) return;
    const Index first = (rows.begin - segment.begin) % dilation_;
    const Index end = first + std::min(rows.size(), dilation_);  // may go round
    visit_range({0, end - dilation_}, visit);
    visit_range({first, std::min(end, dilation_)}, visit);
  }

 private:
  template <class Visit>
  void visit_range(Interval range, Visit& visit) const {
    for (Index offset = range.begin; is_window_ && offset < range.end; ++offset) {
      visit(UsedOffset{offset, offsets_.front().heads}, std::size_t(0));
    }
    if (is_window_) return;
    const auto is_before = [](const UsedOffset& used, Index offset) { return used.offset < offset; };
    auto used = std::lower_bound(offsets_.begin(), offsets_.end(), range.begin, is_before);
    for (; used != offsets_.end() && used->offset < range.end; ++used) {
      visit(*used, std::size_t(used - offsets_.begin()));
    }
  }

  Index dilation_;
  bool is_window_;
  std::vector<UsedOffset> offsets_;
};

/// A part of what rows see through a pair: keys inside the band, of those with comb indices below `keys`.
struct Sight {
  core::Band band;
  Index keys = std::numeric_limits<Index>::max();
};

/// The parts of what rows see through a pair, which have no key in common and are not empty, in the order in which a
/// row takes keys in (order of keys: Problem's rounds_of()). A segment and a window have one; `first` has the rows
/// before the window apart from it, and without causality those after it. Every part's item has rows of its own, so
/// that parts cannot share a work list.
/// Worked example: window [1, 1], first 3: keys 0 1 2 with t_query - t_key <= -2; the window; keys 0 1 2 with
/// t_query - t_key >= 2.
std::vector<Sight> sights_of(const Pair& pair, bool causal);

/// Appends the comb indices that queries with indices `t` see through the band, from the start of a granule on, to
/// `ranges`, which stay ascending and apart where those of one call after another begin at the same index or after it.
/// The other way round, with the band's limits exchanged, it gives the queries that see keys.
void append_reach(const Comb& comb, Interval t, const core::Band& band, Index granule, std::vector<Interval>& ranges);

/// The document [begin, end) that holds global row `row`; of a row in a gap that row alone, so that gaps may be cut
/// anywhere and nothing reaches over their rows.
Interval document_of(const Documents& documents, Index row);

/// The segment of `pair` that holds global row `row`: never reaches over the borders of the row's document. Of a window
/// it is the document.
Interval segment_of(const Pair& pair, const Documents& documents, Index row);

/// Rows of `segment` picked by dilation `dilation` at `offset`; empty where the offset lies after the segment's end.
Comb comb_of(Interval segment, Index dilation, Index offset);

/// All segments of `pair` that touch `rows`, ascending; none of gaps.
std::vector<Interval> segments_touching(const Pair& pair, const Documents& documents, Interval rows);

}  // namespace annulus::pattern
