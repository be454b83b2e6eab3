#include "annulus/pattern/combs.hpp"

namespace annulus::pattern {

Interval indices_within(const Comb& comb, Interval rows) {
  // Returns the first t >= 0 with base + t * stride >= bound, but at most count.
  const auto first_at = [&](Index bound) {
    const Index t = bound <= comb.base ? 0 : core::ceil_div(bound - comb.base, comb.stride);
    return std::min(t, comb.count);
  };
  return {first_at(rows.begin), std::max(first_at(rows.begin), first_at(rows.end))};
}

std::vector<UsedOffset> used_offsets(const Pattern& pattern, Index pair, Index heads, Index rows) {
  const Index r = pattern.pairs[std::size_t(pair)].dilation;
  std::vector<UsedOffset> used;
  // A window uses all offsets. With segments, `grouped` has one offset per pair; the other semantics use the offsets 0,
  // 1, ... without gaps, at most as many as there are heads.
  const bool is_window = pattern.pairs[std::size_t(pair)].window.has_value();
  const bool grouped = pattern.semantics == Semantics::grouped && !is_window;
  const Index first = grouped ? pair % r : 0;
  const Index last = grouped ? first : std::min(r, is_window ? rows : heads) - 1;
  for (Index offset = first; offset <= last; ++offset) {
    const HeadSet set = heads_at_offset(pattern, pair, offset, heads);
    if (set.count > 0) used.push_back({offset, set});
  }
  return used;
}

PairCombs::PairCombs(const Pattern& pattern, Index pair, Index heads)
    : dilation_(pattern.pairs[std::size_t(pair)].dilation),
      is_window_(pattern.pairs[std::size_t(pair)].window.has_value()),
      offsets_(used_offsets(pattern, pair, heads, 1)) {}

std::vector<VisiblePart> visible_parts(const Pair& pair, bool causal) {
  constexpr Index unbounded = core::Band::unbounded;
  const core::Band mask = causal ? core::Band::upto : core::Band::all;
  if (!pair.window) return {{mask}};
  const auto& [left, right, first, viewers] = *pair.window;
  std::vector<VisiblePart> all;
  if (first > 0 && !causal) all.push_back({{-right - 1, unbounded}, first});
  all.push_back({core::overlap(mask, {left, right})});
  if (first > 0) all.push_back({core::overlap(mask, {unbounded, -left - 1}), first});
  return all;
}

void append_reach(const Comb& comb, Interval t, const core::Band& band, Index granule, std::vector<Interval>& ranges) {
  const Index begin = std::max<Index>(t.begin - band.left, 0) / granule * granule,
              end = core::ceil_div(std::clamp<Index>(t.end + band.right, 0, comb.count), granule) * granule;
  const Interval reach = core::intersect({begin, end}, {0, comb.count});
  if (reach.empty()) return;
  if (!ranges.empty() && reach.begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, reach.end);
  } else {
    ranges.push_back(reach);
  }
}

Interval document_of(const Documents& documents, Index row) {
  // next - 1 is the last boundary at or before the row. The search skips documents of zero length, which hold no row.
  const auto next = std::upper_bound(documents.begin(), documents.end(), row);
  if (documents.is_gap(next - documents.begin() - 1)) return {row, row + 1};
  return {*(next - 1), *next};
}

Interval segment_of(const Pair& pair, const Documents& documents, Index row) {
  const Interval document = document_of(documents, row);
  if (pair.segment == whole_document) return document;
  const Index begin = document.begin + (row - document.begin) / pair.segment * pair.segment;
  return {begin, std::min(begin + pair.segment, document.end)};
}

Comb comb_of(Interval segment, Index dilation, Index offset) {
  const Index picked = offset < segment.size() ? (segment.size() - offset - 1) / dilation + 1 : 0;
  return {segment.begin + offset, dilation, picked};
}

std::vector<Interval> segments_touching(const Pair& pair, const Documents& documents, Interval rows) {
  std::vector<Interval> segments;
  for (Index row = rows.begin; row < rows.end;) {
    const auto next = std::upper_bound(documents.begin(), documents.end(), row);
    if (documents.is_gap(next - documents.begin() - 1)) {
      row = *next;
      continue;
    }
    segments.push_back(segment_of(pair, documents, row));
    row = segments.back().end;
  }
  return segments;
}

}  // namespace annulus::pattern
