// Walks over the rows of pieces of combs, and finds the keys that a row sees (core/work_item.hpp).
#pragma once

#include <algorithm>

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/numbers.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

/// Walks over the rows of a piece one after another.
class RowWalk {
 public:
  RowWalk(const core::WorkList& work, const core::RowMap& map) : run_(work.runs.data() + map.first_run) {}

  void skip(core::Index rows) {
    for (at_ += rows; at_ >= run_->count && at_ > 0; ++run_) at_ -= run_->count;
  }
  /// Returns how many of the next `most` rows, which must exist, have a comb index below `end`.
  core::Index rows_below(core::Index end, core::Index most) const {
    core::Index rows = 0;
    const core::Run* run = run_;
    for (core::Index at = at_; rows < most;) {
      if (at >= run->count) {
        at -= run++->count;
        continue;
      }
      if (run->t + at >= end) break;
      rows += std::min(run->count, end - run->t) - at;
      if (run->t + run->count >= end) break;
      at = run->count;
    }
    return std::min(rows, most);
  }
  /// next() returns the comb index and the stored row of the next row, which must exist, and steps over it.
  struct Row {
    core::Index t;
    core::Index row;
  };
  Row next() {
    while (at_ >= run_->count) {  // the next row exists, so a run follows
      at_ -= run_->count;
      ++run_;
    }
    const Row row{run_->t + at_, run_->row + at_ * run_->stride};
    ++at_;
    return row;
  }

 private:
  const core::Run* run_;
  core::Index at_ = 0;  // number of the next row, from the start of *run_
};

/// Prefetches the first rows of `walk`, which a task will read soon. Without this, tasks of few rows would mostly wait
/// for memory.
inline void ask_for_rows(const core::TensorView& tensor, core::Index batch, core::Index head, core::Index head_dim,
                         RowWalk walk, core::Index rows) {
  const core::Index bytes = head_dim * core::Index(core::bytes_of(tensor.type));
  const EntryRows of(tensor, batch, head);
  for (core::Index i = 0; i < std::min(rows, tuning::host_rows_ahead); ++i) {
    const auto* row = static_cast<const char*>(of.at(walk.next().row));
    for (core::Index byte = 0; byte < bytes; byte += 64) __builtin_prefetch(row + byte);
  }
}

/// at(t) returns how many keys of a piece have a comb index <= t. These keys are the first ones of the piece. Calls
/// must be in ascending order of t.
///   keys t = 2 3 | 7 8 9 in two runs:   at(3) is 2, at(6) is 2, at(8) is 4
class VisibleKeys {
 public:
  VisibleKeys(const core::WorkList& work, const core::RowMap& keys)
      : run_(work.runs.data() + keys.first_run), end_(run_ + keys.runs) {}

  core::Index at(core::Index t) {
    while (run_ != end_ && run_->t + run_->count - 1 <= t) before_ += run_++->count;
    return run_ == end_ ? before_ : before_ + std::max<core::Index>(0, t - run_->t + 1);
  }

 private:
  const core::Run* run_;
  const core::Run* end_;
  core::Index before_ = 0;  // keys of all runs before *run_
};

/// Keys number begin, ..., end - 1 of a piece.
struct KeyNumbers {
  core::Index begin;
  core::Index end;
};

/// at(t) returns which keys of an item the query row of comb index t sees. These keys are consecutive. Calls must be in
/// ascending order of t.
///   keys t = 2 3 7 8 9:   t = 3 sees [0, 2) with Band::upto, [2, 5) with Band::after, [0, 3) with left 5, right 4
class BandKeys {
 public:
  BandKeys(const core::WorkList& work, const core::WorkItem& item)
      : before_(work, item.key), upto_(work, item.key), band_(item.band), count_(item.key.count) {}

  KeyNumbers at(core::Index t) {
    const core::Index begin = band_.left == core::Band::unbounded ? 0 : before_.at(t - band_.left - 1);
    const core::Index end = band_.right == core::Band::unbounded ? count_ : upto_.at(t + band_.right);
    return {begin, std::max(begin, end)};
  }

 private:
  VisibleKeys before_, upto_;
  core::Band band_;
  core::Index count_;
};

/// The same as BandKeys, but at(t) returns positions of keys in descending order of t: position i is key number
/// count - 1 - i of the piece. Calls must be in ascending order of t.
///   keys t = 2 3 7 8 9 at positions 4 3 2 1 0:   t = 3 sees [3, 5) with Band::upto, [0, 3) with Band::after
class SeenKeys {
 public:
  SeenKeys(const core::WorkList& work, const core::WorkItem& item) : keys_(work, item), count_(item.key.count) {}

  KeyNumbers at(core::Index t) {
    const KeyNumbers seen = keys_.at(t);
    return {count_ - seen.end, count_ - seen.begin};
  }

 private:
  BandKeys keys_;
  core::Index count_;
};

}  // namespace annulus::kernels::host
