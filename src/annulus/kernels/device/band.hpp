// Decides by comb indices which keys a query sees.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/device/work.hpp"

namespace annulus::kernels::device {

/// Lowest and highest comb index of some rows.
struct CombRange {
  core::Index lowest;
  core::Index highest;
};

KOKKOS_INLINE_FUNCTION bool is_hidden(const core::Band& band, core::Index query_t, core::Index key_t) {
  return query_t - key_t > band.left || key_t - query_t > band.right;
}

/// How many (query, key) pairs of a tile are visible. If none is, the team does not load the tile's rows met.
enum class Visible { none, some, all };

KOKKOS_INLINE_FUNCTION Visible visible_of(const core::Band& band, CombRange queries, CombRange keys) {
  // The largest and the smallest number of comb indices by which a key comes after a query.
  const core::Index most_after = keys.highest - queries.lowest, least_after = keys.lowest - queries.highest;
  if (least_after > band.right || -most_after > band.left) return Visible::none;
  return most_after <= band.right && -least_after <= band.left ? Visible::all : Visible::some;
}

/// Returns how many rows of a map have a comb index of at most t; these are the map's first rows.
KOKKOS_INLINE_FUNCTION Index rows_upto(const DeviceWorkView& work, const core::RowMap& map, Index t) {
  Index low = map.first_run;
  Index high = map.first_run + map.runs;
  if (t < work.runs[low].run.t) return 0;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (work.runs[middle].run.t <= t ? low : high) = middle;
  }
  const DeviceRun& last = work.runs[low];
  const Index reached = t - last.run.t + 1;
  return last.rows_before - work.runs[map.first_run].rows_before +
         (reached < last.run.count ? reached : last.run.count);
}

/// The rows at positions begin, ..., end - 1 of a map.
struct KeyRange {
  Index begin;
  Index end;
};

/// Returns the rows of a map with comb indices from `first` to `last`. If a band has no limit on a side, callers pass a
/// comb index minus or plus Band::unbounded. This lies beyond all comb indices and has no effect.
KOKKOS_INLINE_FUNCTION KeyRange rows_between(const DeviceWorkView& work, const core::RowMap& map, Index first,
                                             Index last) {
  constexpr Index beyond = core::Band::unbounded / 2;
  const Index begin = first < -beyond ? 0 : rows_upto(work, map, first - 1);
  const Index end = last > beyond ? map.count : rows_upto(work, map, last);
  return {begin, begin < end ? end : begin};
}

}  // namespace annulus::kernels::device
