#include "annulus/pattern/parts.hpp"

#include <algorithm>
#include <tuple>

namespace annulus::pattern {

bool contains(const Part& outer, const Part& inner) {
  if (inner.count == 0) return true;
  const bool inside = inner.first >= outer.first && inner.end() <= outer.end();
  const bool aligned = (inner.first - outer.first) % outer.stride == 0;
  return inside && aligned && (inner.count == 1 || inner.stride % outer.stride == 0);
}

std::vector<Part> reduce(std::vector<Part> parts) {
  std::erase_if(parts, [](const Part& part) { return part.count == 0; });
  if (parts.empty()) return parts;
  if (parts.size() == 1) {
    if (parts[0].count == 1) parts[0].stride = 1;  // its span
    return parts;
  }
  // Bigger parts first, so that a part can only lie inside one that was kept before it.
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tuple(-a.count, a.first, a.stride) < std::tuple(-b.count, b.first, b.stride);
  });
  std::vector<Part> kept;
  for (const Part& part : parts) {
    const bool nested = std::any_of(kept.begin(), kept.end(), [&](const Part& outer) { return contains(outer, part); });
    if (!nested) kept.push_back(part);
  }
  Interval span{kept.front().first, kept.front().end()};
  for (const Part& part : kept) span = {std::min(span.begin, part.first), std::max(span.end, part.end())};
  if (row_count(kept) >= span.size()) return {{span.begin, 1, span.size()}};
  std::sort(kept.begin(), kept.end(),
            [](const Part& a, const Part& b) { return std::tuple(a.first, a.stride) < std::tuple(b.first, b.stride); });
  return kept;
}

Index row_count(const std::vector<Part>& parts) {
  Index count = 0;
  for (const Part& part : parts) count += part.count;
  return count;
}

bool is_empty(const Stretch& stretch) {
  return std::all_of(stretch.heads.begin(), stretch.heads.end(), [](const auto& parts) { return parts.empty(); });
}

Index head_rows(const Cargo& cargo) {
  Index count = 0;
  for (const Stretch& stretch : cargo) {
    for (const std::vector<Part>& parts : stretch.heads) count += row_count(parts);
  }
  return count;
}

}  // namespace annulus::pattern
