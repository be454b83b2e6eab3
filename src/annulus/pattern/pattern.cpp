#include "annulus/pattern/pattern.hpp"

#include <fmt/format.h>

#include <utility>

namespace annulus::pattern {
std::string_view name_of(Semantics semantics) {
  for (const auto& entry : semantics_table) {
    if (entry.value == semantics) return entry.name;
  }
  return "";
}

std::string why_no_window(Semantics semantics, const Pair& pair) {
  if (!pair.window) return "";
  if (semantics == Semantics::torchscale) return "torchscale has no windows, expected rows or all";
  if (pair.window->first == 0 || pair.dilation == 1) return "";
  return fmt::format("first needs dilation 1, which is {}", pair.dilation);
}

std::string segment_text(const Pair& pair) {
  if (pair.window) {
    const Window& w = *pair.window;
    return fmt::format("{{window: [{}, {}]{}}}", w.left, w.right,
                       w.first > 0 ? fmt::format(", first: {}", w.first) : "");
  }
  return pair.segment == whole_document ? "all" : std::to_string(pair.segment);
}

HeadSet heads_at_offset(const Pattern& pattern, Index pair, Index offset, Index heads) {
  const bool is_window = pattern.pairs[std::size_t(pair)].window.has_value();
  const Index r = is_window ? 1 : pattern.pairs[std::size_t(pair)].dilation;
  if (is_window) offset = 0;  // in a window all of the pair's heads use every offset
  switch (pattern.semantics) {
    case Semantics::longnet:
    case Semantics::torchscale: {
      const Index per_offset = core::ceil_div(heads, r);
      return intersect({offset * per_offset, 1, per_offset}, {0, heads});
    }
    case Semantics::paper:
      return offset < heads ? HeadSet{offset, r, core::ceil_div(heads - offset, r)} : HeadSet{};
    case Semantics::grouped: {
      if (offset != pair % r) return {};
      const core::Interval group = core::even_part(heads, Index(pattern.pairs.size()), pair);
      return {group.begin, 1, group.size()};
    }
  }
  return {};
}

Pattern mirrored(Pattern pattern) {
  for (Pair& pair : pattern.pairs) {
    if (!pair.window) continue;
    if (pattern.causal) pair.window->right = 0;
    std::swap(pair.window->left, pair.window->right);
    std::swap(pair.window->first, pair.window->viewers);
  }
  pattern.causal = false;
  return pattern;
}

HeadSet intersect(HeadSet set, core::Interval range) {
  const Index skipped = std::max<Index>(0, core::ceil_div(std::max<Index>(0, range.begin - set.first), set.stride));
  const Index first = set.first + skipped * set.stride;
  const Index fitting = first < range.end ? core::ceil_div(range.end - first, set.stride) : 0;
  const Index count = std::min(set.count - skipped, fitting);
  return count > 0 ? HeadSet{first, set.stride, count} : HeadSet{};
}

core::Interval heads_read(core::Interval query, Index group) {
  if (query.empty()) return {};
  return {query.begin / group, core::ceil_div(query.end, group)};
}

Documents documents_at(const std::vector<core::Interval>& ranges, Index sequence) {
  Documents documents{0};
  const auto end_gap = [&](Index row) {
    if (row == documents.back()) return;
    documents.gaps.push_back(Index(documents.size()) - 1);
    documents.push_back(row);
  };
  for (const core::Interval& rows : ranges) {
    end_gap(rows.begin);
    documents.push_back(rows.end);
  }
  end_gap(sequence);
  return documents;
}

std::vector<core::Interval> in_gaps(const Documents& documents, core::Interval rows) {
  std::vector<core::Interval> parts;
  const auto gap_at = [&](Index gap) {
    return core::Interval{documents[std::size_t(gap)], documents[std::size_t(gap) + 1]};
  };
  const auto first = std::partition_point(documents.gaps.begin(), documents.gaps.end(),
                                          [&](Index gap) { return gap_at(gap).end <= rows.begin; });
  for (auto gap = first; gap != documents.gaps.end() && gap_at(*gap).begin < rows.end; ++gap) {
    const core::Interval part = core::intersect(gap_at(*gap), rows);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

Index count_in_gaps(const Documents& documents, const std::vector<core::Interval>& rows) {
  Index count = 0;
  for (const core::Interval& interval : rows) {
    for (const core::Interval& part : in_gaps(documents, interval)) count += part.size();
  }
  return count;
}

std::vector<core::Interval> rows_without_first(const Documents& documents, Index skipped) {
  std::vector<core::Interval> rows;
  for (Index d = 0; d + 1 < Index(documents.size()); ++d) {
    const Index begin = documents[std::size_t(d)], end = documents[std::size_t(d) + 1];
    if (end - begin > skipped && !documents.is_gap(d)) rows.push_back({begin + skipped, end});
  }
  return rows;
}

}  // namespace annulus::pattern
