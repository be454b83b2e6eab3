// Which rows of the other side a row, or a tile of them, sees: neighbours, as comb indices ascend along a map.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/band.hpp"

namespace annulus::kernels::cuda {

using core::Index;

using device::KeyRange;

/// Keys of an item that a query of comb index t sees: as t ascends along a map, they are neighbours.
KOKKOS_INLINE_FUNCTION KeyRange keys_seen_at(const device::DeviceWorkView& work, const core::WorkItem& item, Index t) {
  return device::rows_between(work, item.key, t - item.band.left, t + item.band.right);
}

/// Queries of an item, (row, head) pairs, rows first, that see a key of comb index t.
KOKKOS_INLINE_FUNCTION KeyRange queries_that_see(const device::DeviceWorkView& work, const core::WorkItem& item,
                                                 Index t) {
  const KeyRange rows = device::rows_between(work, item.query, t - item.band.right, t + item.band.left);
  return {rows.begin * item.head_count, rows.end * item.head_count};
}

/// The keys of a tile of rows: positions that some row sees, from the beginning of a granule on, and positions that all
/// rows see, which are a part of the former where there are any.
struct TileKeys {
  KeyRange visible_to_any;
  KeyRange visible_to_all;

  /// Made of what the tile's first row and its last row see, because ranges ascend along a map.
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
