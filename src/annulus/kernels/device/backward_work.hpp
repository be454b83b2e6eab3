// A WorkList as the teams of the backward kernels read it. There are two kinds of teams, each for one launch:
//   Owner::queries   a team owns query rows, meets all keys of their item, and makes dq
//   Owner::keys      a team owns key rows, meets all queries of their item, and makes dk and dv
// so that every gradient is written by one team and no number is added atomically.
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
#include "annulus/kernels/device/device_list.hpp"

namespace annulus::kernels::device {

enum class Owner { queries, keys };

/// Comb index, stored row and head of one query or key of an item.
struct ItemRow {
  Index t;
  Index row;
  Index head;
};

/// What one team owns: queries or keys number [begin, begin + count) of the item.
struct OwnedTile {
  core::WorkItem item;
  Index batch;
  Index begin;
  int count;
};

/// For device code.
struct BackwardWorkView : DeviceListView {
  KOKKOS_FUNCTION ItemRow query_of(const core::WorkItem& item, Index number) const {
    const CombRow found = row_of(item.query, number / item.head_count);
    return {found.t, found.row, item.head_first + number % item.head_count * item.head_stride};
  }
  KOKKOS_FUNCTION ItemRow key_of(const core::WorkItem& item, Index number) const {
    const CombRow found = row_of(item.key, number);
    return {found.t, found.row, item.kv_head};
  }
  template <Owner owner>
  KOKKOS_FUNCTION OwnedTile tile_of(Index team) const {
    const DeviceItem& found = item_of(team);
    const Index owned = owner == Owner::queries ? queries_of(found.item) : found.item.key.count;
    const Index tiles = (owned + tile_rows - 1) / tile_rows;
    const Index rest = team - found.first_team;
    // With causal the last queries see the most keys and the first keys are seen most: the longest work first.
    const Index tile = owner == Owner::queries ? tiles - 1 - rest % tiles : rest % tiles;
    const Index left = owned - tile * tile_rows;
    return {found.item, rest / tiles, tile * tile_rows, left < tile_rows ? int(left) : tile_rows};
  }
};

/// A list's copy in device memory.
class BackwardWork {
 public:
  /// Copies the list; complete on return. Items without queries or keys get no team. `tile_rows` owned rows per team.
  BackwardWork(const core::WorkList& work, Index batch, Owner owner, int tile_rows);

  BackwardWorkView view() const { return {list_.view()}; }
  Index teams() const { return list_.teams(); }

  /// See DeviceList::launches().
  std::vector<Index> launches(Index head_dim, double flops) const;

 private:
  Owner owner_;
  DeviceList list_;
};

}  // namespace annulus::kernels::device
