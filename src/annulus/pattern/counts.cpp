#include "annulus/pattern/counts.hpp"

#include <algorithm>
#include <array>

namespace annulus::pattern {

KeptCounts::KeptCounts(const Layout& layout) : causal_(layout.pattern.causal), documents_(layout.documents) {
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    const std::vector<UsedOffset> used = used_offsets(layout.pattern, i, layout.heads);
    PairHeads heads{layout.pattern.pairs[std::size_t(i)], used.empty() ? 0 : used.front().offset, {0}};
    for (const UsedOffset& one : used) heads.heads_below.push_back(heads.heads_below.back() + one.heads.count);
    pairs_.push_back(std::move(heads));
  }
  kept_below_.push_back(0);
  for (std::size_t d = 0; d + 1 < documents_.size(); ++d) {
    const Index length = documents_[d + 1] - documents_[d];
    double kept = 0;
    for (const PairHeads& heads : pairs_) kept += in_document(heads, length, length);
    kept_below_.push_back(kept_below_.back() + kept);
  }
}

double KeptCounts::PairHeads::heads_in(Index begin, Index end) const {
  const Index used = Index(heads_below.size()) - 1;
  const auto below = [&](Index offset) {
    return heads_below[std::size_t(std::clamp<Index>(offset - first_offset, 0, used))];
  };
  return begin < end ? double(below(end) - below(begin)) : 0;
}

double KeptCounts::in_segment(const PairHeads& heads, Index length, Index y) const {
  const Index r = heads.pair.dilation;
  std::array<Index, 4> cuts{0, std::min(y % r, length % r), std::max(y % r, length % r), r};
  double kept = 0;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const Index offset = cuts[c];  // stands for all offsets of its class
    const double m = double(y / r + (offset < y % r)), t = double(length / r + (offset < length % r));
    kept += heads.heads_in(offset, cuts[c + 1]) * (causal_ ? m * (m + 1) / 2 : m * t);
  }
  return kept;
}

double KeptCounts::in_document(const PairHeads& heads, Index length, Index y) const {
  const Index w = heads.pair.segment == whole_document ? length : std::min(heads.pair.segment, length);
  if (w == 0) return 0;
  const Index whole = y / w, rest = y - whole * w;
  return double(whole) * in_segment(heads, w, w) + in_segment(heads, std::min(w, length - whole * w), rest);
}

double KeptCounts::before(Index row) const {
  const auto next = std::upper_bound(documents_.begin(), documents_.end(), row);
  const auto d = std::size_t(next - documents_.begin()) - 1;
  if (next == documents_.end()) return kept_below_.back();
  double kept = kept_below_[d];
  for (const PairHeads& heads : pairs_) kept += in_document(heads, *next - documents_[d], row - documents_[d]);
  return kept;
}

double KeptCounts::of(const StoredRows& rows) const {
  double kept = 0;
  for (const Interval& interval : rows.intervals()) kept += before(interval.end) - before(interval.begin);
  return kept;
}

}  // namespace annulus::pattern
