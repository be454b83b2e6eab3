#include "annulus/pattern/parts.hpp"

#include <algorithm>
#include <tuple>

namespace annulus::pattern {

bool contains(const StridedRange& outer, const StridedRange& inner) {
  if (inner.count == 0) return true;
  const bool inside = inner.first >= outer.first && inner.end() <= outer.end();
  const bool aligned = (inner.first - outer.first) % outer.stride == 0;
  return inside && aligned && (inner.count == 1 || inner.stride % outer.stride == 0);
}

std::vector<StridedRange> reduce(std::vector<StridedRange> parts) {
  std::erase_if(parts, [](const StridedRange& part) { return part.count == 0; });
  if (parts.empty()) return parts;
  if (parts.size() == 1) {
    if (parts[0].count == 1) parts[0].stride = 1;  // its span
    return parts;
  }
  // Bigger parts first, so that a part can only lie inside one that was kept before it.
  std::sort(parts.begin(), parts.end(), [](const StridedRange& a, const StridedRange& b) {
    return std::tuple(-a.count, a.first, a.stride) < std::tuple(-b.count, b.first, b.stride);
  });
  std::vector<StridedRange> kept;
  for (const StridedRange& part : parts) {
    const bool nested =
        std::any_of(kept.begin(), kept.end(), [&](const StridedRange& outer) { return contains(outer, part); });
    if (!nested) kept.push_back(part);
  }
  Interval span{kept.front().first, kept.front().end()};
  for (const StridedRange& part : kept) span = {std::min(span.begin, part.first), std::max(span.end, part.end())};
  if (row_count(kept) >= span.size()) return {{span.begin, 1, span.size()}};
  std::sort(kept.begin(), kept.end(), [](const StridedRange& a, const StridedRange& b) {
    return std::tuple(a.first, a.stride) < std::tuple(b.first, b.stride);
  });
  return kept;
}

Index row_count(const std::vector<StridedRange>& parts) {
  Index count = 0;
  for (const StridedRange& part : parts) count += part.count;
  return count;
}

bool is_empty(const OwnerInterval& owned) {
  return std::all_of(owned.heads.begin(), owned.heads.end(), [](const auto& parts) { return parts.empty(); });
}

Index head_rows(const PackedRows& packed) {
  Index count = 0;
  for (const OwnerInterval& owned : packed) {
    for (const std::vector<StridedRange>& parts : owned.heads) count += row_count(parts);
  }
  return count;
}

}  // namespace annulus::pattern
