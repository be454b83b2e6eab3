// A work list for the tests of the teams' numbering, and copies, which the host can read, of the tables that device
// code reads.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/device/work.hpp"

namespace annulus::kernels::device {

/// 70 queries in three runs for heads 2 and 5 of key/value head 1, and 3 queries for head 0; two items have no pairs.
inline core::WorkList two_items() {
  core::WorkList list;
  list.runs = {{5, 100, 1, 3}, {0, 10, 2, 40}, {50, 95, 1, 1}, {60, 7, 3, 29}};
  list.items = {{{1, 3, 70}, {0, 4, 73}, 1, 2, 3, 2},  // heads 2 and 5
                {{0, 0, 0}, {0, 1, 3}, 0, 0, 1, 6},    // no queries: no team
                {{1, 1, 40}, {0, 0, 0}, 0, 0, 1, 6},   // no keys: no team
                {{0, 1, 3}, {1, 1, 40}, 0, 0, 1, 1, core::Band::upto}};
  return list;
}

// Copies a table to host memory, because in a GPU build the host cannot read the tables.
template <class Element>
std::vector<Element> on_host(const Element* device, core::Index count) {
  std::vector<Element> copy(static_cast<std::size_t>(count));
  core::copy_to_host(copy.data(), device, count * core::Index(sizeof(Element)));
  return copy;
}

/// The view of a DeviceWork made of `list`, whose runs and items are copied to the host.
template <class Work>
struct HostCopy {
  HostCopy(const Work& work, const core::WorkList& list)
      : runs(on_host(work.view().runs, core::Index(list.runs.size()))),
        items(on_host(work.view().items, work.view().item_count)),
        view(work.view()) {
    view.runs = runs.data();
    view.items = items.data();
  }
  std::vector<DeviceRun> runs;
  std::vector<DeviceItem> items;
  std::decay_t<decltype(std::declval<const Work&>().view())> view;
};

}  // namespace annulus::kernels::device
