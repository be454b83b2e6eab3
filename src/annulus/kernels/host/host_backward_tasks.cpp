#include <algorithm>

#include "annulus/kernels/host/backward_tasks.hpp"
#include "annulus/kernels/host/task_cost.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::WorkItem;
using core::WorkList;

namespace {

/// Keys of a task of this item when a task should cost about `target`.
Index task_keys(const WorkItem& item, Index target, Index max_keys, Index key_step) {
  const Index keys = rows_of_cost(item, item.key.count, target, tuning::host_min_task_keys, max_keys);
  return core::ceil_div(keys, key_step) * key_step;
}

}  // namespace

std::vector<BackwardTask> make_backward_tasks(const WorkList& work, Index batch, Index max_keys, Index key_step,
                                              Index threads) {
  const Index target = task_cost(work, batch, threads);
  std::vector<BackwardTask> tasks;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < Index(work.items.size()); ++i) {
      const WorkItem& item = work.items[i];
      if (item.query.count == 0 || item.key.count == 0) continue;
      const Index most = task_keys(item, target, max_keys, key_step);
      const Index parts = core::ceil_div(item.key.count, most);
      // Parts of about equal size, so that none packs all the queries for a few keys.
      const Index keys = core::ceil_div(core::ceil_div(item.key.count, parts), key_step) * key_step;
      for (Index first = (item.key.count - 1) / keys * keys; first >= 0; first -= keys) {
        const Index count = std::min(keys, item.key.count - first);
        const double share = double(first + count) / double(item.key.count);
        tasks.push_back({b, i, first, count, Index(tasks.size()), first + count == item.key.count,
                         Index(double(item_cost(item)) * share)});
      }
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const BackwardTask& a, const BackwardTask& b) { return a.cost > b.cost; });
  return tasks;
}

}  // namespace annulus::kernels::host
