// Cuts a work list into tasks for threads.
//   forward    a batch entry, an item, and some of the item's query rows with all heads. No two tasks write to the same
//              memory
//   backward   a batch entry, an item, and some of the item's keys with all query rows that see them. Only this task
//              adds to dk and dv of these keys. The tasks of an item add to dq of a query row one after another, the
//              task of the last keys first. So a task may add to a chunk of query rows as soon as the task of the next
//              higher keys has finished with this chunk
#pragma once

#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/core/work_item.hpp"

namespace annulus::kernels::host {

struct Task {
  core::Index batch = 0;
  core::Index item = 0;   ///< index into WorkList::items
  core::Index first = 0;  ///< query rows [first, first + count) of the item's piece
  core::Index count = 0;
  /// Keys that any of these rows sees: positions [key_begin, key_end) of the item's keys in DESCENDING order of t.
  core::Index key_begin = 0;
  core::Index key_end = 0;
  core::Index cost = 0;  ///< about how many (query row, head, key) triples the task computes
};

/// Returns the tasks of a work list for every batch entry, the most costly first. Tasks without keys are left out. A
/// task has at most `max_rows` (query row, head) pairs, and fewer if there would be too few tasks for `threads`. If one
/// query row has more heads than that, a task has one query row with all its heads.
std::vector<Task> make_tasks(const core::WorkList& work, core::Index batch, core::Index max_rows, core::Index threads);

struct BackwardTask {
  core::Index batch = 0;
  core::Index item = 0;   ///< index into WorkList::items
  core::Index first = 0;  ///< keys [first, first + count) of the item's piece
  core::Index count = 0;
  core::Index number = 0;  ///< index before sorting; the task of the next higher keys of the item has number - 1
  bool highest = false;    ///< no task of the batch entry and item has higher keys
  core::Index cost = 0;    ///< about how many triples this task and the tasks that wait for it compute
};

/// Returns the tasks of a work list for every batch entry. A task has at most `max_keys` keys, and fewer if there would
/// be too few tasks for `threads`. The number of keys is a multiple of `key_step`, unless the item ends earlier. The
/// cost of a task includes the tasks that wait for it, and the most costly tasks come first. So the task of an item's
/// last keys comes before the item's other tasks, and tasks of items of equal size alternate.
std::vector<BackwardTask> make_backward_tasks(const core::WorkList& work, core::Index batch, core::Index max_keys,
                                              core::Index key_step, core::Index threads);

}  // namespace annulus::kernels::host
