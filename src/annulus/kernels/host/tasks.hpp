// Cutting a work list into tasks for threads: (batch entry, item, some of its query rows with all its heads). Tasks
// share nothing: each packs the keys it needs for itself.
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
  /// Keys that any of them sees: positions [key_begin, key_end) of the item's keys taken in DESCENDING order of t.
  core::Index key_begin = 0;
  core::Index key_end = 0;
  core::Index cost = 0;  ///< about how many (query row, head, key) it computes
};

/// Tasks of a work list for every batch entry, most costly first; rows without any key are in none. Tasks hold at most
/// `max_rows` query rows times heads (or one query row), and where that leaves too few for `threads`, less.
std::vector<Task> make_tasks(const core::WorkList& work, core::Index batch, core::Index max_rows, core::Index threads);

}  // namespace annulus::kernels::host
