// Cutting a work list into tasks for gradients: (batch entry, item, some of its keys with all query rows that see
// them).
//
// A task alone adds to dk and dv of its keys. To dq of a query row the tasks of an item add one after another, higher
// keys first: task i may touch a chunk of query rows as soon as task i + 1 (the next higher keys) is done with it.
#pragma once

#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/core/work_item.hpp"

namespace annulus::kernels::host {

struct BackwardTask {
  core::Index batch = 0;
  core::Index item = 0;   ///< index into WorkList::items
  core::Index first = 0;  ///< keys [first, first + count) of the item's piece
  core::Index count = 0;
  core::Index place = 0;  ///< 0, 1, ... before sorting: the task of the next higher keys has place - 1
  bool highest = false;   ///< nobody has higher keys
  core::Index cost = 0;   ///< about how many (query row, head, key) it and the tasks that wait for it compute
};

/// Tasks of a work list for every batch entry, of at most `max_keys` keys each, a multiple of `key_step` but for the
/// last keys of an item; smaller where that leaves too few for `threads`. Those on which most depends come first, so
/// tasks of one item and batch entry come with descending keys, and items of equal size take turns.
std::vector<BackwardTask> make_backward_tasks(const core::WorkList& work, core::Index batch, core::Index max_keys,
                                              core::Index key_step, core::Index threads);

}  // namespace annulus::kernels::host
