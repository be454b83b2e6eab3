#include "annulus/pattern/counts.hpp"

#include <algorithm>
#include <array>

namespace annulus::pattern {

KeptCounts::KeptCounts(const Layout& layout)
    : causal_(layout.pattern.causal), queries_(layout.queries), keys_(layout.keys), documents_(layout.documents) {
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    // All offsets of a window have the same heads, so one offset is enough.
    const std::vector<UsedOffset> used = used_offsets(layout.pattern, i, layout.heads, 1);
    PairHeads heads{layout.pattern.pairs[std::size_t(i)], used.empty() ? 0 : used.front().offset, {0}};
    for (const UsedOffset& one : used) {
      heads.heads_below.push_back(heads.heads_below.back() + intersect(one.heads, layout.query_heads()).count);
    }
    pairs_.push_back(std::move(heads));
  }
}

Index KeptCounts::PairHeads::heads_in(Index begin, Index end) const {
  const Index used = Index(heads_below.size()) - 1;
  const auto below = [&](Index offset) {
    return heads_below[std::size_t(std::clamp<Index>(offset - first_offset, 0, used))];
  };
  return begin < end ? below(end) - below(begin) : 0;
}

Count KeptCounts::in_segment(const PairHeads& heads, Index length, Index y) const {
  const Index r = heads.pair.dilation;
  std::array<Index, 4> cuts{0, std::min(y % r, length % r), std::max(y % r, length % r), r};
  Count kept = 0;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const Index offset = cuts[c];  // stands for all offsets of its class
    // If some rows are not keys (Layout::keys), the segment is the whole sequence and r is 1. So comb indices are row
    // numbers, as in keys_.
    const Count m = y / r + (offset < y % r);
    const Count t = core::intersect({0, length / r + (offset < length % r)}, keys_).size();
    kept += heads.heads_in(offset, cuts[c + 1]) * (causal_ ? m * (m + 1) / 2 : m * t);
  }
  return kept;
}

namespace {

/// Sum over x in [0, rows) of min(x div r, most). Worked example: 7 rows, r = 2, most 2: 0 + 0 + 1 + 1 + 2 + 2 + 2 = 8.
Count limited_sum(Index rows, Index r, Index most) {
  if (rows <= 0) return 0;
  const auto whole = [most](Count blocks) {  // sum of min(b, most) over b = 0 ... blocks - 1
    const Count rising = std::min<Count>(blocks, Count(most) + 1);
    return rising * (rising - 1) / 2 + (blocks - rising) * most;
  };
  const Index blocks = rows / r;
  return r * whole(blocks) + Count(rows % r) * std::min(blocks, most);
}

}  // namespace

Count KeptCounts::in_window(const Pair& pair, Index length, Index y) const {
  const auto& [left, right, first, viewers] = *pair.window;
  const Index r = pair.dilation, first_rows = std::min(first, length);
  // Row x sees itself, the window's rows before itself, and the document's first rows that lie before the window.
  Count kept = y + limited_sum(y, r, left) + limited_sum(y - left, 1, first_rows);
  if (causal_) return kept;
  kept += limited_sum(length, r, right) - limited_sum(length - y, r, right);
  // If x < beyond, row x also sees the last `beyond` - x of the document's first rows, which lie after its window.
  const Count beyond = std::max<Index>(0, first_rows - right - 1), rest = beyond - std::min<Count>(y, beyond);
  return kept + (beyond * (beyond + 1) - rest * (rest + 1)) / 2;
}

Count KeptCounts::in_document(const PairHeads& heads, Index length, Index y) const {
  if (heads.pair.window)
    return heads.heads_in(heads.first_offset, heads.first_offset + 1) * in_window(heads.pair, length, y);
  const Index w = heads.pair.segment == whole_document ? length : std::min(heads.pair.segment, length);
  if (w == 0) return 0;
  const Index whole = y / w, rest = y - whole * w;
  return whole * in_segment(heads, w, w) + in_segment(heads, std::min(w, length - whole * w), rest);
}

Count KeptCounts::of(Interval rows) const {
  rows = core::intersect(rows, queries_);
  if (rows.empty()) return 0;
  Count kept = 0;
  for (auto end = std::upper_bound(documents_.begin(), documents_.end(), rows.begin); end != documents_.end(); ++end) {
    const Interval document{*(end - 1), *end};
    if (document.begin >= rows.end) break;
    if (documents_.is_gap(end - documents_.begin() - 1)) continue;
    const Interval inside = core::intersect(document, rows);
    for (const PairHeads& heads : pairs_) {
      kept += in_document(heads, document.size(), inside.end - document.begin) -
              in_document(heads, document.size(), inside.begin - document.begin);
    }
  }
  return kept;
}

Count KeptCounts::of(const StoredRows& rows) const {
  Count kept = 0;
  for (const Interval& interval : rows.intervals()) kept += of(interval);
  return kept;
}

}  // namespace annulus::pattern
