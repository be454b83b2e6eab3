// What all blocks of a forward launch are told, and which keys of an item a query sees.
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

/// Positions begin, ..., end - 1 of a map of keys.
struct KeyRange {
  Index begin;
  Index end;
};

/// Keys of an item that a query of comb index t sees: as t ascends along a map, they are neighbours.
KOKKOS_INLINE_FUNCTION KeyRange keys_seen_at(const device::DeviceWorkView& work, const core::WorkItem& item, Index t) {
  KeyRange seen{0, item.key.count};
  if (item.mask == core::Mask::upto) seen.end = rows_upto(work, item.key, t);
  if (item.mask == core::Mask::after) seen.begin = rows_upto(work, item.key, t);
  return seen;
}

/// Queries of an item, (row, head) pairs, rows first, that see a key of comb index t.
KOKKOS_INLINE_FUNCTION KeyRange queries_that_see(const device::DeviceWorkView& work, const core::WorkItem& item,
                                                 Index t) {
  const Index heads = item.head_count;
  KeyRange seen{0, item.query.count * heads};
  if (item.mask == core::Mask::upto) seen.begin = rows_upto(work, item.query, t - 1) * heads;
  if (item.mask == core::Mask::after) seen.end = rows_upto(work, item.query, t - 1) * heads;
  return seen;
}

/// What a block keeps in shared memory about its tile of queries and their keys, so that it does not take registers.
/// Keys are met in descending order, tile 0 first, which is the one that may not be full.
struct ForwardFacts {
  core::RowMap keys;
  Index first_key;  ///< position of the first key that is met, at the end of the last tile
  const void* k;    ///< row 0 of the block's head and batch entry
  const void* v;
  Index first_state;  ///< number in the state of row 0 and the head
};

}  // namespace annulus::kernels::cuda
