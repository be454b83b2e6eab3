// A WorkList in the form that teams read: in device memory, with items cut into tiles of rows, one tile per team. A
// team owns a tile of queries or keys, and goes through the rows of its item's other side, tile by tile. Only this team
// writes the results of its rows, so no addition needs to be atomic. What a team owns:
//   Owner::rows      forward: query rows of one head
//   Owner::queries   backward: (row, head) pairs, for which it makes dq, or lists of top keys
//   Owner::keys      backward: key rows, for which it makes dk and dv, or what keys receive
// Teams are numbered item after item. Example: tiles of 32 rows, batch 2, one item of 70 query rows, 4 heads
// and 50 keys: 2 * 4 * 3 = 24 teams own rows, 2 * 9 own its 280 queries, 2 * 2 own its keys.
//
// The queries of an item are its (row, head) pairs, rows first. Example: 3 rows and heads 2 and 5 are the queries
//   number     0  1  2  3  4  5
//   row        0  0  1  1  2  2
//   head       2  5  2  5  2  5
#pragma once

#include <Kokkos_Core.hpp>
#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/work_item.hpp"

namespace annulus::kernels::device {

using core::Index;

enum class Owner { rows, queries, keys };

/// A run, and the number of rows in all runs before it in the list.
struct DeviceRun {
  core::Run run;
  Index rows_before;
};

/// An item, and the number of its first team.
struct DeviceItem {
  core::WorkItem item;
  Index first_team;
};

/// One row of a map: its comb index t and its stored row.
struct CombRow {
  Index t;
  Index row;
};

/// One query or key of an item: comb index t, stored row, and head.
struct ItemRow {
  Index t;
  Index row;
  Index head;
};

/// The rows that one team owns: rows [begin, begin + count) of the item's `owned_rows`.
struct TeamTile {
  core::WorkItem item;
  Index batch;
  Index head;  ///< with Owner::rows, the head of all rows; otherwise not used, because each row has its own head
  Index begin;
  int count;
};

/// Returns how many rows of one batch entry (with Owner::rows: and of one head) all teams of an item own together.
KOKKOS_INLINE_FUNCTION Index owned_rows(const core::WorkItem& item, Owner owner) {
  if (owner == Owner::keys) return item.key.count;
  return owner == Owner::rows ? item.query.count : item.query.count * item.head_count;
}

/// The tables of a list, for device code. DeviceWork owns their memory.
struct DeviceWorkView {
  const DeviceRun* runs;
  const DeviceItem* items;
  Index item_count;
  int tile_rows;

  /// Row number `index` of the map, 0 <= index < map.count.
  KOKKOS_FUNCTION CombRow row_of(const core::RowMap& map, Index index) const;
  KOKKOS_FUNCTION ItemRow query_of(const core::WorkItem& item, Index number) const {
    const Index position = number / item.head_count;  // the head without %, which would cost a GPU a second division
    const CombRow found = row_of(item.query, position);
    return {found.t, found.row, item.head_first + (number - position * item.head_count) * item.head_stride};
  }
  KOKKOS_FUNCTION ItemRow key_of(const core::WorkItem& item, Index number) const {
    const CombRow found = row_of(item.key, number);
    return {found.t, found.row, item.kv_head};
  }
  /// The item that team number `team` works on: the last one whose first team is at most `team`.
  KOKKOS_FUNCTION const DeviceItem& item_of(Index team) const;
  template <Owner owner>
  KOKKOS_FUNCTION TeamTile tile_of(Index team) const;
};

/// Holds the copy of a WorkList in device memory.
class DeviceWork {
 public:
  /// Copies the list; complete on return. Items without queries or keys get no team. `tile_rows`: the most rows that a
  /// team owns.
  DeviceWork(const core::WorkList& work, Index batch, Owner owner, int tile_rows);

  const DeviceWorkView& view() const { return view_; }
  /// The same tables as in view(), but in host memory. They are valid as long as this object lives.
  DeviceWorkView host_view() const { return {runs_.data(), items_.data(), view_.item_count, view_.tile_rows}; }
  Index teams() const { return teams_; }

  /// Cuts the teams into launches of about `flops` floating-point operations, with 1 to 2^30 teams in each launch.
  /// Returns the number of the team after each launch's last team.
  std::vector<Index> launches(Index head_dim, double flops) const;

 private:
  /// Floating-point operations of one team of an item.
  double team_flops(const core::WorkItem& item, Index head_dim) const;

  Owner owner_;
  std::vector<DeviceRun> runs_;  // the host's copies
  std::vector<DeviceItem> items_;
  core::Buffer run_buffer_;
  core::Buffer item_buffer_;
  DeviceWorkView view_{};
  Index teams_ = 0;
};

KOKKOS_INLINE_FUNCTION const DeviceItem& DeviceWorkView::item_of(Index team) const {
  Index low = 0;
  Index high = item_count;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (items[middle].first_team <= team ? low : high) = middle;
  }
  return items[low];
}

KOKKOS_INLINE_FUNCTION CombRow DeviceWorkView::row_of(const core::RowMap& map, Index index) const {
  const Index target = runs[map.first_run].rows_before + index;
  Index low = map.first_run;
  Index high = map.first_run + map.runs;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (runs[middle].rows_before <= target ? low : high) = middle;
  }
  const Index step = target - runs[low].rows_before;
  return {runs[low].run.t + step, runs[low].run.row + step * runs[low].run.stride};
}

template <Owner owner>
KOKKOS_INLINE_FUNCTION TeamTile DeviceWorkView::tile_of(Index team) const {
  const DeviceItem& found = item_of(team);
  const core::WorkItem& item = found.item;
  const Index heads = owner == Owner::rows ? item.head_count : 1;  // successive teams have the same rows of other heads
  const Index owned = owned_rows(item, owner), tiles = (owned + tile_rows - 1) / tile_rows;
  const Index number = team - found.first_team, rest = number / heads;
  // Teams with the most work come first: if attention is causal, the last queries see the most keys, and the first keys
  // are seen by the most queries.
  const Index tile = owner == Owner::keys ? rest % tiles : tiles - 1 - rest % tiles;
  const Index left = owned - tile * tile_rows;
  return {item, rest / tiles, item.head_first + number % heads * item.head_stride, tile * tile_rows,
          left < tile_rows ? int(left) : tile_rows};
}

}  // namespace annulus::kernels::device
