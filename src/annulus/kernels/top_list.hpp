// A row's largest weights: entries (weight, row) by descending weight, those of equal weight by ascending row, no row
// twice; weight 0 and row -1 where there is none. The list does not depend on the order in which rows are offered, nor
// on how often a row is.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

template <class T>
struct TopList {
  T* weights;         // [size]
  core::Index* rows;  // [size]
  core::Index size;

  /// Offers a row of weight > 0, which may be listed only if it `may_come_again`.
  KOKKOS_INLINE_FUNCTION void admit(T weight, core::Index row, bool may_come_again) const {
    if (is_ahead(size - 1, weight, row)) return;
    for (core::Index i = 0; may_come_again && i < size; ++i) {
      if (rows[i] == row) return;
    }
    core::Index at = size - 1;
    for (; at > 0 && !is_ahead(at - 1, weight, row); --at) {
      weights[at] = weights[at - 1];
      rows[at] = rows[at - 1];
    }
    weights[at] = weight;
    rows[at] = row;
  }

  /// What the last entry's weight is multiplied by: a weight that is no larger than that is not admitted even with the
  /// largest multiplicity there is, whatever rounding does.
  KOKKOS_INLINE_FUNCTION static T caution(core::Index most_times) { return (1 - T(1e-6)) / T(most_times); }
  KOKKOS_INLINE_FUNCTION T last() const { return weights[size - 1]; }

 private:
  KOKKOS_INLINE_FUNCTION bool is_ahead(core::Index i, T weight, core::Index row) const {
    return weights[i] > weight || (weights[i] == weight && rows[i] < row);
  }
};

}  // namespace annulus::kernels
