// Which rows of the other side a row, or a tile of them, sees: neighbours, as comb indices ascend along a map.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/work.hpp"

namespace annulus::kernels::cuda {

using core::Index;

/// How many rows of a map have a comb index of at most t. They are its first ones.
KOKKOS_INLINE_FUNCTION Index rows_upto(const device::DeviceWorkView& work, const core::RowMap& map, Index t) {
  Index low = map.first_run;
  Index high = map.first_run + map.runs;
  if (t < work.runs[low].run.t) return 0;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (work.runs[middle].run.t <= t ? low : high) = middle;
  }
  const device::DeviceRun& last = work.runs[low];
  const Index reached = t - last.run.t + 1;
  return last.rows_before - work.runs[map.first_run].rows_before +
         (reached < last.run.count ? reached : last.run.count);
}

/// Positions begin, ..., end - 1 of a map.
struct KeyRange {
  Index begin;
  Index end;
};

/// Keys of an item that a query of comb index t sees: as t ascends along a map, they are neighbours.
KOKKOS_INLINE_FUNCTION KeyRange keys_seen_at(const device::DeviceWorkView& work, const core::WorkItem& item, Index t) {
  KeyRange seen{0, item.key.count};
  if (item.mask == core::Mask::upto) seen.end = rows_upto(work, item.key, t);
  if (item.mask == core::Mask::after) seen.begin = rows_upto(work, item.key, t);
  return seen;
}

/// Queries of an item, (row, head) pairs, rows first, that see a key of comb index t.
KOKKOS_INLINE_FUNCTION KeyRange queries_that_see(const device::DeviceWorkView& work, const core::WorkItem& item,
                                                 Index t) {
  const Index heads = item.head_count;
  KeyRange seen{0, item.query.count * heads};
  if (item.mask == core::Mask::upto) seen.begin = rows_upto(work, item.query, t - 1) * heads;
  if (item.mask == core::Mask::after) seen.end = rows_upto(work, item.query, t - 1) * heads;
  return seen;
}

/// Of a tile of rows: positions that some of them see, from the beginning of a granule on, and those that all do, which
/// are a part of these where there are any.
struct TileKeys {
  KeyRange visible_to_any;
  KeyRange visible_to_all;

  /// Of what its first row sees and its last one: ranges ascend along a map.
  KOKKOS_INLINE_FUNCTION TileKeys(const KeyRange& of_first, const KeyRange& of_last)
      : visible_to_any{of_first.begin, of_last.end}, visible_to_all{of_last.begin, of_first.end} {
    if (visible_to_any.begin < visible_to_any.end) visible_to_any.begin -= visible_to_any.begin % granule;
  }
};
KOKKOS_INLINE_FUNCTION TileKeys keys_of_tile(const device::DeviceWorkView& work, const device::TeamTile& tile) {
  const core::RowMap& queries = tile.item.query;
  const KeyRange of_first = keys_seen_at(work, tile.item, work.row_of(queries, tile.begin).t);
  const KeyRange of_last = keys_seen_at(work, tile.item, work.row_of(queries, tile.begin + tile.count - 1).t);
  return {of_first, of_last};
}

/// What of a range lies inside another one: empty, at one of its ends, where nothing does.
KOKKOS_INLINE_FUNCTION KeyRange inside(const KeyRange& range, const KeyRange& of) {
  const auto clamp = [&](Index x) { return x < of.begin ? of.begin : x > of.end ? of.end : x; };
  return {clamp(range.begin), clamp(range.end)};
}

}  // namespace annulus::kernels::cuda
