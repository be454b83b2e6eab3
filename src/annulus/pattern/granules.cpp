#include "annulus/pattern/granules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "annulus/pattern/combs.hpp"

namespace annulus::pattern {
namespace {

/// Returns granule * lcm of the dilations; if this number is above `most`, returns some number above `most`.
Index spacing_of(const Pattern& pattern, Index granule, Index most) {
  Index spacing = granule;
  for (const Pair& pair : pattern.pairs) {
    const Index part = pair.dilation / std::gcd(spacing / granule, pair.dilation);
    if (part > most / spacing) return most + 1;
    spacing *= part;
  }
  return spacing;
}

}  // namespace

std::string why_no_grid(const Pattern& pattern, Index granule) {
  for (const Pair& pair : pattern.pairs) {
    if (pair.segment % granule != 0 || pair.segment / granule % pair.dilation != 0) {  // whole_document passes: it is 0
      return fmt::format("segments of {} rows at dilation {} are no multiples of {} x {}", pair.segment, pair.dilation,
                         granule, pair.dilation);
    }
  }
  return "";
}

CutGrid::CutGrid(const Pattern& pattern, const Documents& documents, Index granule)
    : documents_(&documents), spacing_(granule == 1 ? 1 : spacing_of(pattern, granule, documents.back())) {}

Index CutGrid::nearest(Index row) const {
  if (spacing_ == 1 || row == documents_->back()) return row;
  const Interval document = document_of(*documents_, row);
  const Index below = document.begin + (row - document.begin) / spacing_ * spacing_;
  const Index above = std::min(below + spacing_, document.end);
  return row - below <= above - row ? below : above;
}

Index CutGrid::widest() const {
  Index longest = 1;
  for (std::size_t i = 1; spacing_ > 1 && i < documents_->size(); ++i) {
    if (!documents_->is_gap(Index(i) - 1)) longest = std::max(longest, (*documents_)[i] - (*documents_)[i - 1]);
  }
  return std::min(spacing_, longest);
}

Partition on_grid(const Partition& partition, const CutGrid& grid) {
  Partition moved;
  for (const StoredRows& rows : partition) {
    std::vector<Interval> intervals;
    for (const Interval& one : rows.intervals()) intervals.push_back({grid.nearest(one.begin), grid.nearest(one.end)});
    moved.push_back(joined(intervals));
  }
  return moved;
}

Interval even_part(const StoredRows& rows, Index parts, Index i, const CutGrid& grid) {
  const auto moved = [&](Index stored) {
    Index before = 0;  // rows before the interval
    for (const Interval& interval : rows.intervals()) {
      if (stored < before + interval.size())
        return before + grid.nearest(interval.begin + stored - before) - interval.begin;
      before += interval.size();
    }
    return stored;
  };
  const Interval part = core::even_part(rows.count(), parts, i);
  return {moved(part.begin), moved(part.end)};
}

Partition nth_share_of_rows(const Partition& partition, Index shares, Index i, const CutGrid& grid) {
  Partition share;
  for (const StoredRows& rows : partition) share.push_back(taken(rows, even_part(rows, shares, shares - 1 - i, grid)));
  return share;
}

}  // namespace annulus::pattern
