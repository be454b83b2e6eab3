#include <algorithm>

#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/task_cost.hpp"
#include "annulus/kernels/host/tasks.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::WorkItem;
using core::WorkList;

namespace {

/// Query rows of a task of this item when a task should cost about `target`.
Index task_rows(const WorkItem& item, Index target, Index max_rows) {
  const Index rows = item.query.count * item.head_count;
  return std::max<Index>(1, rows_of_cost(item, rows, target, tuning::host_min_task_rows, max_rows) / item.head_count);
}

/// Tasks of at most `most` query rows each and of equal size: a small last one would pack all the keys for few rows.
void add_item_tasks(const WorkList& work, Index batch, Index index, Index most, std::vector<Task>& tasks) {
  const WorkItem& item = work.items[index];
  const Index rows = core::ceil_div(item.query.count, std::max<Index>(1, core::ceil_div(item.query.count, most)));
  RowWalk walk(work, item.query);
  SeenKeys seen(work, item);
  for (Index first = 0; first < item.query.count; first += rows) {
    const Index count = std::min(rows, item.query.count - first);
    RowWalk last = walk;
    last.skip(count - 1);
    // Rows ascend in t: the first one's keys end last, the last one's begin first.
    const Index end = seen.at(walk.next().t).end, begin = seen.at(last.next().t).begin;
    if (begin < end) tasks.push_back({batch, index, first, count, begin, end, count * item.head_count * (end - begin)});
    walk = last;
  }
}

}  // namespace

std::vector<Task> make_tasks(const WorkList& work, Index batch, Index max_rows, Index threads) {
  const Index target = task_cost(work, batch, threads);
  std::vector<Task> tasks;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < Index(work.items.size()); ++i) {
      const WorkItem& item = work.items[i];
      add_item_tasks(work, b, i, task_rows(item, target, max_rows), tasks);
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.cost > b.cost; });
  return tasks;
}

}  // namespace annulus::kernels::host
