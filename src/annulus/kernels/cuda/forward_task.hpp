// What all blocks of a forward launch are told, and where the keys of an item end that a block's queries see.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/device/forward_team.hpp"
#include "annulus/kernels/device/work.hpp"

namespace annulus::kernels::cuda {

using core::Index;

template <class Sum>
struct ForwardTask {
  device::DeviceWorkView work;
  core::TensorView q, k, v;
  device::StatePointers<Sum> state;
  Sum score_factor;  ///< scale * log2(e)
  int head_dim;
};

/// How many rows of a map have a comb index of at most t. They are its first ones.
KOKKOS_INLINE_FUNCTION Index rows_upto(const device::DeviceWorkView& work, const core::RowMap& map, Index t) {
  Index low = map.first_run;
  Index high = map.first_run + map.runs;
  if (t < work.runs[low].run.t) return 0;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (work.runs[middle].run.t <= t ? low : high) = middle;
  }
  const device::DeviceRun& last = work.runs[low];
  const Index reached = t - last.run.t + 1;
  return last.rows_before - work.runs[map.first_run].rows_before +
         (reached < last.run.count ? reached : last.run.count);
}

/// Positions [begin, end) of a map of keys that some of the queries see, whose comb indices are first_t ... last_t.
KOKKOS_INLINE_FUNCTION core::Interval seen_keys(const device::DeviceWorkView& work, const core::WorkItem& item,
                                                Index first_t, Index last_t) {
  core::Interval seen{0, item.key.count};
  if (item.mask == core::Mask::upto) seen.end = rows_upto(work, item.key, last_t);
  if (item.mask == core::Mask::after) seen.begin = rows_upto(work, item.key, first_t);
  return seen;
}

}  // namespace annulus::kernels::cuda
