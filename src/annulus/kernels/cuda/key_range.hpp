// Finds the rows of an item's other side that a row, or a tile of rows, sees or is seen by. Their positions are one
// range, because comb indices ascend along a map.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/band.hpp"

namespace annulus::kernels::cuda {

using core::Index;

using device::KeyRange;

/// Positions of an item's keys that a query of comb index t sees.
KOKKOS_INLINE_FUNCTION KeyRange keys_seen_at(const device::DeviceWorkView& work, const core::WorkItem& item, Index t) {
  return device::rows_between(work, item.key, t - item.band.left, t + item.band.right);
}

/// Numbers of an item's queries that see a key of comb index t. Queries are (row, head) pairs, rows first.
KOKKOS_INLINE_FUNCTION KeyRange queries_that_see(const device::DeviceWorkView& work, const core::WorkItem& item,
                                                 Index t) {
  const KeyRange rows = device::rows_between(work, item.query, t - item.band.right, t + item.band.left);
  return {rows.begin * item.head_count, rows.end * item.head_count};
}

/// What a tile of rows sees. visible_to_any: from the first to the last position that a row sees, extended down to the
/// beginning of a granule. visible_to_all: positions that all rows see. All of them also lie in visible_to_any.
struct TileKeys {
  KeyRange visible_to_any;
  KeyRange visible_to_all;

  /// `of_first`, `of_last`: what the tile's first and last rows see. The ranges of the rows between are not needed,
  /// because along a map ranges begin, and end, no earlier than those before them.
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

/// Returns the part of `range` that lies in `of`, or an empty range at one end of `of` if there is no such part.
KOKKOS_INLINE_FUNCTION KeyRange inside(const KeyRange& range, const KeyRange& of) {
  const auto clamp = [&](Index x) { return x < of.begin ? of.begin : x > of.end ? of.end : x; };
  return {clamp(range.begin), clamp(range.end)};
}

}  // namespace annulus::kernels::cuda
