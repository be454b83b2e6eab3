#include <algorithm>

#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/tasks.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {
namespace {

using core::Index;
using core::WorkItem;
using core::WorkList;

/// Returns about how many (query row, head, key) triples an item has. A band without limits has all triples. A band
/// with one limit counts as half of them. With two limits, each (query row, head) counts as many keys as the band is
/// wide, and an item at most half of all triples.
Index item_cost(const WorkItem& item) {
  const Index rows = item.query.count * item.head_count, all = rows * item.key.count;
  if (item.band == core::Band::all) return all;
  const Index width = item.band.left + item.band.right;  // larger than the number of keys if a side has no limit
  return std::min(all / 2, rows * std::clamp<Index>(width, 0, item.key.count)) + 1;
}

/// Calls add(batch, item's index, rows_for, tasks), which appends to `tasks`, for every batch entry and item. Returns
/// the tasks, the most costly first. rows_for(all, least, most) returns how many of an item's `all` rows (or keys) a
/// task should have, from `least` to `most`, so that every thread gets several tasks.
template <class AnyTask, class Add>
std::vector<AnyTask> collect_tasks(const WorkList& work, Index batch, Index threads, const Add& add) {
  Index total = 0;
  for (const WorkItem& item : work.items) total += batch * item_cost(item);
  const Index wanted = threads == 1 ? total : total / (threads * tuning::host_tasks_per_thread) + 1;
  std::vector<AnyTask> tasks;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < Index(work.items.size()); ++i) {
      const auto rows_for = [&](Index all, Index least, Index most) {
        const double share = double(wanted) / double(std::max<Index>(1, item_cost(work.items[i])));
        const Index fair = share < 1 ? Index(double(all) * share) : all;
        return std::clamp(fair, std::min(least, most), most);
      };
      add(b, i, rows_for, tasks);
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const AnyTask& a, const AnyTask& b) { return a.cost > b.cost; });
  return tasks;
}

}  // namespace

std::vector<Task> make_tasks(const WorkList& work, Index batch, Index max_rows, Index threads) {
  return collect_tasks<Task>(work, batch, threads, [&](Index b, Index i, const auto& rows_for, auto& tasks) {
    const WorkItem& item = work.items[i];
    const Index pairs = rows_for(item.query.count * item.head_count, tuning::host_min_task_rows, max_rows);
    const Index most = std::max<Index>(1, pairs / item.head_count);
    // Tasks have about equal size, because a small last task would pack all the keys for few rows.
    const Index rows = core::ceil_div(item.query.count, std::max<Index>(1, core::ceil_div(item.query.count, most)));
    RowWalk walk(work, item.query);
    SeenKeys seen(work, item);
    for (Index first = 0; first < item.query.count; first += rows) {
      const Index count = std::min(rows, item.query.count - first);
      RowWalk last = walk;
      last.skip(count - 1);
      // Positions count keys in descending order of t. So the range of the first row, which sees the earliest keys,
      // ends last, and the range of the last row begins first.
      const Index end = seen.at(walk.next().t).end, begin = seen.at(last.next().t).begin;
      if (begin < end) tasks.push_back({b, i, first, count, begin, end, count * item.head_count * (end - begin)});
      walk = last;
    }
  });
}

std::vector<BackwardTask> make_backward_tasks(const WorkList& work, Index batch, Index max_keys, Index key_step,
                                              Index threads) {
  return collect_tasks<BackwardTask>(work, batch, threads, [&](Index b, Index i, const auto& rows_for, auto& tasks) {
    const WorkItem& item = work.items[i];
    if (item.query.count == 0 || item.key.count == 0) return;
    const auto whole_steps = [&](Index keys) { return core::ceil_div(keys, key_step) * key_step; };
    const Index most = whole_steps(rows_for(item.key.count, tuning::host_min_task_keys, max_keys));
    const Index parts = core::ceil_div(item.key.count, most);
    // Tasks have about equal size, so that no task packs all the queries for a few keys.
    const Index keys = whole_steps(core::ceil_div(item.key.count, parts));
    for (Index first = (item.key.count - 1) / keys * keys; first >= 0; first -= keys) {
      const Index count = std::min(keys, item.key.count - first);
      const double share = double(first + count) / double(item.key.count);
      tasks.push_back({b, i, first, count, Index(tasks.size()), first + count == item.key.count,
                       Index(double(item_cost(item)) * share)});
    }
  });
}

}  // namespace annulus::kernels::host
