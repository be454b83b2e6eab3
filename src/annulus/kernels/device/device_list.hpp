// What every kind of work list has in device memory: runs, items with the teams that work on them, launches.
#pragma once

#include <Kokkos_Core.hpp>
#include <functional>
#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/work_item.hpp"

namespace annulus::kernels::device {

using core::Index;

/// A run, and how many rows all runs of the list before it hold.
struct DeviceRun {
  core::Run run;
  Index rows_before;
};

/// Comb index and stored row of one row of a map.
struct CombRow {
  Index t;
  Index row;
};

/// A list's runs, for device code.
struct DeviceRunsView {
  const DeviceRun* runs;

  /// Row number `index` of the map, 0 <= index < map.count.
  KOKKOS_FUNCTION CombRow row_of(const core::RowMap& map, Index index) const;
};

/// An item, and the number of its first team.
struct DeviceItem {
  core::WorkItem item;
  Index first_team;
};

/// A list for device code: plain pointers, DeviceList owns the memory.
struct DeviceListView : DeviceRunsView {
  const DeviceItem* items;
  Index item_count;
  Index batch;
  int tile_rows;

  /// The item that team number `team` works on: the last one whose first team is not beyond it.
  KOKKOS_FUNCTION const DeviceItem& item_of(Index team) const;
};

/// Queries of an item: its (row, head) pairs.
KOKKOS_INLINE_FUNCTION Index queries_of(const core::WorkItem& item) { return item.query.count * item.head_count; }

/// Owner of a list's copy in device memory.
class DeviceList {
 public:
  using TeamsOf = std::function<Index(const core::WorkItem&)>;
  using TeamFlops = std::function<double(const core::WorkItem&)>;

  /// Copies the list; complete on return. Teams are numbered item after item, teams_of(item) for each batch entry;
  /// items without queries or keys get none. `tile_rows`: rows per team.
  DeviceList(const core::WorkList& work, Index batch, int tile_rows, const TeamsOf& teams_of);

  const DeviceListView& view() const { return view_; }
  Index teams() const { return teams_; }

  /// Cuts the teams 0 ... teams() into stretches of about `flops` floating point operations, at least one team and at
  /// most 2^30 each; returns the end of each stretch. A team of an item does team_flops(item) of them.
  std::vector<Index> launches(double flops, const TeamFlops& team_flops) const;

 private:
  std::vector<DeviceItem> items_;  // the host's copy, for launches()
  core::Buffer run_buffer_;
  core::Buffer item_buffer_;
  DeviceListView view_{};
  Index teams_ = 0;
};

KOKKOS_INLINE_FUNCTION const DeviceItem& DeviceListView::item_of(Index team) const {
  Index low = 0;
  Index high = item_count;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (items[middle].first_team <= team ? low : high) = middle;
  }
  return items[low];
}

KOKKOS_INLINE_FUNCTION CombRow DeviceRunsView::row_of(const core::RowMap& map, Index index) const {
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

}  // namespace annulus::kernels::device
