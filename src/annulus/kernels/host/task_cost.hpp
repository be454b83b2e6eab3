// How large the tasks of a work list should be, forward and backward.
#pragma once

#include <algorithm>

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

/// About the (query row, head, key) triples of an item: half of all where a mask leaves out the rest.
inline core::Index item_cost(const core::WorkItem& item) {
  const core::Index all = item.query.count * item.head_count * item.key.count;
  return item.mask == core::Mask::all ? all : all / 2 + 1;
}

/// About the cost of a task, so that every thread gets several.
inline core::Index task_cost(const core::WorkList& work, core::Index batch, core::Index threads) {
  core::Index total = 0;
  for (const core::WorkItem& item : work.items) total += batch * item_cost(item);
  return threads == 1 ? total : total / (threads * tuning::host_tasks_per_thread) + 1;
}

/// How many of an item's `all` rows cost about `cost`; `least` to `most` of them.
inline core::Index rows_of_cost(const core::WorkItem& item, core::Index all, core::Index cost, core::Index least,
                                core::Index most) {
  const double share = double(cost) / double(std::max<core::Index>(1, item_cost(item)));
  const core::Index fair = share < 1 ? core::Index(double(all) * share) : all;
  return std::clamp(fair, std::min(least, most), most);
}

}  // namespace annulus::kernels::host
