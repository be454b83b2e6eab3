// A WorkList as the teams read it: in device memory, and numbered by tiles of query rows.
//
// Every (item, batch entry, tile of query rows, query head) is one team's work; team numbers run through the items in
// order. Example: tiles of 32 rows, batch 2, one item of 70 query rows and 4 heads: 3 tiles, 2 * 3 * 4 = 24 teams.
#pragma once

#include <Kokkos_Core.hpp>
#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/device/device_list.hpp"

namespace annulus::kernels::device {

/// What one team works on: query rows [query_begin, query_begin + query_rows) of the item's query map.
struct TeamTile {
  core::WorkItem item;
  Index batch;
  Index head;
  Index query_begin;
  int query_rows;
};

/// For device code.
struct DeviceWorkView : DeviceListView {
  KOKKOS_FUNCTION TeamTile tile_of(Index team) const;
};

/// A list's copy in device memory.
class DeviceWork {
 public:
  /// Copies the list; complete on return. Items without rows or keys get no team. `tile_rows` query rows per team.
  DeviceWork(const core::WorkList& work, Index batch, int tile_rows);

  DeviceWorkView view() const { return {list_.view()}; }
  Index teams() const { return list_.teams(); }

  /// See DeviceList::launches().
  std::vector<Index> launches(Index head_dim, double flops) const;

 private:
  DeviceList list_;
};

KOKKOS_INLINE_FUNCTION TeamTile DeviceWorkView::tile_of(Index team) const {
  const DeviceItem& found = item_of(team);
  TeamTile tile;
  tile.item = found.item;
  Index rest = team - found.first_team;
  tile.head = tile.item.head_first + rest % tile.item.head_count * tile.item.head_stride;
  rest /= tile.item.head_count;
  // Last tiles first: with causal they see the most keys, and the longest work should not start last.
  const Index tiles = (tile.item.query.count + tile_rows - 1) / tile_rows;
  tile.query_begin = (tiles - 1 - rest % tiles) * tile_rows;
  tile.batch = rest / tiles;
  const Index left = tile.item.query.count - tile.query_begin;
  tile.query_rows = left < tile_rows ? int(left) : tile_rows;
  return tile;
}

}  // namespace annulus::kernels::device
