// Defines segments and combs. A dilation rate is a stride between rows.
//
// A pair (w, r) cuts every document into segments of w rows (the last segment may be shorter). In a segment, offset o
// picks the rows segment.begin + o, segment.begin + o + r, ... The picked rows are a comb, and rows of a comb see each
// other.
//
// Worked example: one document of n = 10 rows, pair (w, r) = (8, 2), H = 4, longnet: ceil(4 / 2) = 2 heads share an
// offset.
//   segment 0..7   offset 0 (heads 0, 1): rows 0 2 4 6     offset 1 (heads 2, 3): rows 1 3 5 7
//   segment 8..9   offset 0 (heads 0, 1): row  8           offset 1 (heads 2, 3): row  9
// Query row 6 of head 0, causal, thus sees rows 0 2 4 6 through this pair: comb indices t = 0 1 2 3.
//
// A window of dilation r does not cut documents into segments: each document has r combs, at offsets 0 ... r - 1, and
// each comb runs through the whole document. All heads of the pair use all r combs. Through the window, a row sees only
// comb rows near itself (core::Band).
// Worked example: left 2, r = 3, causal: row 10 is t = 3 of the comb 1 4 7 10 ... and sees t = 1 2 3.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "annulus/core/work_item.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::pattern {

using core::Interval;

/// The `count` rows base, base + stride, ...; comb index t is row base + t * stride.
struct Comb {
  Index base = 0;
  Index stride = 1;
  Index count = 0;

  Index row(Index t) const { return base + t * stride; }
};

/// Returns the comb indices [begin, end) whose rows lie in `rows`.
Interval indices_within(const Comb& comb, Interval rows);

/// An offset that at least one head uses in a pair, and the heads that use it.
struct UsedOffset {
  Index offset = 0;
  HeadSet heads;
};

/// Returns the offsets of pair `pair` that at least one of `heads` heads uses, ascending. With segments, there are at
/// most min(dilation, heads) such offsets. For a window, returns all offsets that have a row among a document's first
/// `rows` rows.
std::vector<UsedOffset> used_offsets(const Pattern& pattern, Index pair, Index heads,
                                     Index rows = std::numeric_limits<Index>::max());

/// Finds the combs of one pair that have rows in an interval. Keeps no list of the r combs that a window of dilation r
/// has in a document, because r may be 10^12, and an interval of a few rows has rows of only a few combs.
class PairCombs {
 public:
  PairCombs(const Pattern& pattern, Index pair, Index heads);

  /// The offsets that heads use, ascending; for a window only offset 0, because all its offsets have the same heads.
  const std::vector<UsedOffset>& offsets() const { return offsets_; }

  /// Calls visit(used, i) for each used offset at which the segment has a row in `rows`, by ascending offset. With
  /// segments, `used` is offsets()[i]. With a window, i is always 0, and `used.offset` is the visited offset.
  /// Worked example: dilation 8, segment 0 ... 99, rows 14 15 16: offsets 0, 6, 7.
  template <class Visit>
  void visit(Interval segment, Interval rows, Visit&& visit) const {
    rows = core::intersect(rows, segment);
    if (rows.empty() || offsets_.empty()) return;
    const Index first = (rows.begin - segment.begin) % dilation_;
    const Index end = first + std::min(rows.size(), dilation_);  // offsets from dilation_ on wrap round to 0
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

/// A part of the keys that rows see through a pair: the keys inside `band` whose comb indices are below `keys`.
struct VisiblePart {
  core::Band band;
  Index keys = std::numeric_limits<Index>::max();
};

/// Splits the keys that rows see through a pair into parts, in the order in which a query adds its keys (rounds_of()
/// in strategies/problem.hpp). For each query, no key is in two parts. Without Window::first there is one part: the
/// segment or the window.
/// Window::first adds a part: those of the document's first rows that lie before the window. If not causal, it adds
/// another part: those of the document's first rows that lie after the window. A row may be a query of several parts,
/// but a work list may contain a query only once, so each part needs a work list of its own.
/// Worked example: window [1, 1], first 3, not causal. The three parts are, in this order: those of keys 0 1 2 that lie
/// after the window (t_query - t_key <= -2); the window; those of keys 0 1 2 that lie before it (t_query - t_key >= 2).
std::vector<VisiblePart> visible_parts(const Pair& pair, bool causal);

/// Appends to `ranges` the comb indices that queries with indices `t` see through the band. Each range is extended to
/// whole granules: kernels read all ranges as one range without gaps and cut it into granules, and these must be the
/// comb's granules. `ranges` stay ascending and disjoint if `t` begins no earlier than in the previous call. If the
/// caller exchanges the band's limits and passes indices of keys as `t`, the function appends the indices of the
/// queries that see these keys.
void append_reach(const Comb& comb, Interval t, const core::Band& band, Index granule, std::vector<Interval>& ranges);

/// Returns the document [begin, end) that holds global row `row`. A row in a gap counts as a document of its own, so
/// that gaps may be cut anywhere and no segment crosses a gap.
Interval document_of(const Documents& documents, Index row);

/// Returns the segment of `pair` that holds global row `row`. A segment never crosses the borders of a document. For a
/// window, the segment is the whole document.
Interval segment_of(const Pair& pair, const Documents& documents, Index row);

/// Returns the rows of `segment` that dilation `dilation` picks at `offset`; no rows if the offset lies beyond the
/// segment.
Comb comb_of(Interval segment, Index dilation, Index offset);

/// Returns all segments of `pair` that have rows in `rows`, ascending. Gaps have no segments.
std::vector<Interval> segments_touching(const Pair& pair, const Documents& documents, Interval rows);

}  // namespace annulus::pattern
