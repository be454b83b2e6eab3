#include "annulus/pattern/strided_ranges.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace annulus::pattern {

bool contains(const StridedRange& outer, const StridedRange& inner) {
  if (inner.count == 0) return true;
  const bool inside = inner.first >= outer.first && inner.end() <= outer.end();
  const bool aligned = (inner.first - outer.first) % outer.stride == 0;
  return inside && aligned && (inner.count == 1 || inner.stride % outer.stride == 0);
}

namespace {

/// A range that can be sorted by comb. A comb is identified by its stride and by its rows modulo the stride.
struct CombRange {
  explicit CombRange(const StridedRange& range) : range(range), rest(range.first % range.stride) {}
  std::tuple<Index, Index, Index, Index> sort_key() const { return {range.stride, rest, range.first, -range.count}; }

  StridedRange range;
  Index rest;
};

/// Returns the ranges that lie inside no other range. In `combs` ranges of one comb are adjacent, and their ends
/// ascend like their first rows. So a binary search finds whether a range of a comb contains a given range. The search
/// is fast, also if there is a range for every offset of a large dilation. If several ranges have the same single row,
/// the range with the smallest stride stays.
std::vector<StridedRange> without_nested(const std::vector<StridedRange>& ranges) {
  std::vector<CombRange> all(ranges.begin(), ranges.end()), combs;
  std::sort(all.begin(), all.end(), [](const CombRange& a, const CombRange& b) { return a.sort_key() < b.sort_key(); });
  std::vector<Index> strides;
  for (const CombRange& one : all) {
    if (strides.empty() || strides.back() != one.range.stride) strides.push_back(one.range.stride);
    if (combs.empty() || !contains(combs.back().range, one.range)) combs.push_back(one);
  }
  const auto is_nested = [&](const StridedRange& range) {
    return std::any_of(strides.begin(), strides.end(), [&](Index stride) {
      if (stride == range.stride || (range.count > 1 && range.stride % stride != 0)) return false;
      const std::tuple<Index, Index, Index, Index> last{stride, range.first % stride, range.first, 0};
      const auto next = std::partition_point(combs.begin(), combs.end(),
                                             [&](const CombRange& one) { return one.sort_key() <= last; });
      if (next == combs.begin()) return false;
      const StridedRange& outer = (next - 1)->range;
      return contains(outer, range) && (outer.count > 1 || outer.stride < range.stride);
    });
  };
  std::vector<StridedRange> kept;
  for (const CombRange& one : combs) {
    if (!is_nested(one.range)) kept.push_back(one.range);
  }
  return kept;
}

}  // namespace

std::vector<StridedRange> reduce(std::vector<StridedRange> ranges) {
  std::erase_if(ranges, [](const StridedRange& range) { return range.count == 0; });
  if (ranges.empty()) return ranges;
  if (ranges.size() == 1) {
    if (ranges[0].count == 1) ranges[0].stride = 1;  // by the second rule: one row is its span
    return ranges;
  }
  std::vector<StridedRange> kept = without_nested(ranges);
  Interval span{kept.front().first, kept.front().end()};
  for (const StridedRange& range : kept) span = {std::min(span.begin, range.first), std::max(span.end, range.end())};
  if (row_count(kept) >= span.size()) return {{span.begin, 1, span.size()}};
  std::sort(kept.begin(), kept.end(), [](const StridedRange& a, const StridedRange& b) {
    return std::tuple(a.first, a.stride) < std::tuple(b.first, b.stride);
  });
  return kept;
}

StridedRange common(const StridedRange& part, const StridedRange& range) {
  if (part.stride % range.stride != 0 || (part.first - range.first) % range.stride != 0) return {};
  const auto index_of = [&](Index row) {  // index of the first row of `part` at or after `row`
    return row <= part.first ? 0 : std::min(part.count, core::ceil_div(row - part.first, part.stride));
  };
  const Index begin = index_of(range.first), end = index_of(range.end());
  return begin < end ? StridedRange{part.row(begin), part.stride, end - begin} : StridedRange{};
}

std::vector<StridedRange> difference(const std::vector<StridedRange>& ranges, std::vector<StridedRange> others) {
  if (others.empty()) return ranges;
  const Index stride = others.front().stride;
  const auto by_comb = [stride](const StridedRange& a, const StridedRange& b) {
    return std::pair(a.first % stride, a.first) < std::pair(b.first % stride, b.first);
  };
  std::sort(others.begin(), others.end(), by_comb);
  std::vector<StridedRange> rest;
  for (StridedRange range : ranges) {
    auto cut = std::partition_point(others.begin(), others.end(), [&](const StridedRange& other) {
      return std::pair(other.first % stride, other.end()) <= std::pair(range.first % stride, range.first);
    });
    for (; cut != others.end() && range.count > 0 && cut->first < range.end(); ++cut) {
      if ((cut->first - range.first) % stride != 0) break;  // `cut` belongs to another comb
      const Index before = std::max<Index>(0, (cut->first - range.first) / stride);
      const Index until = std::min(range.count, (cut->end() - 1 - range.first) / stride + 1);
      if (before > 0) rest.push_back({range.first, stride, before});
      range = {range.row(until), stride, range.count - until};
    }
    if (range.count > 0) rest.push_back(range);
  }
  return rest;
}

Index row_count(const std::vector<StridedRange>& ranges) {
  Index count = 0;
  for (const StridedRange& range : ranges) count += range.count;
  return count;
}

bool is_empty(const OwnerInterval& owned) {
  return std::all_of(owned.heads.begin(), owned.heads.end(), [](const auto& ranges) { return ranges.empty(); });
}

Index head_rows(const PackedRows& packed) {
  Index count = 0;
  for (const OwnerInterval& owned : packed) {
    for (const std::vector<StridedRange>& ranges : owned.heads) count += row_count(ranges);
  }
  return count;
}

}  // namespace annulus::pattern
