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

/// The item that team number `team` works on: the last one whose first team is not beyond it.
KOKKOS_INLINE_FUNCTION const DeviceItem& item_of(const DeviceItem* items, Index count, Index team) {
  Index low = 0;
  Index high = count;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (items[middle].first_team <= team ? low : high) = middle;
  }
  return items[low];
}

std::vector<DeviceRun> device_runs(const core::WorkList& work);

/// The elements in device memory; complete on return.
template <class Element>
core::Buffer copy_of(const std::vector<Element>& elements) {
  const Index bytes = Index(elements.size() * sizeof(Element));
  core::Buffer buffer("work list", bytes);
  core::copy_to_device(buffer.data(), elements.data(), bytes);
  return buffer;
}

/// Cuts the teams 0 ... teams into stretches of about `flops` floating point operations, at least one team and at most
/// 2^30 each; returns the end of each stretch. A team of an item does team_flops(item) of them.
std::vector<Index> cut_launches(const std::vector<DeviceItem>& items, Index teams, double flops,
                                const std::function<double(const core::WorkItem&)>& team_flops);

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
