#include "annulus/pattern/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  if (is_window) offset = 0;  // as if no row were left out
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
  // Skip the heads before the range, drop those after it.
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

}  // namespace annulus::pattern
