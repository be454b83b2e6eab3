// A list of the keys that have the largest weights for one query. Its entries (weight, row of the key) are in
// descending order of weight; entries of equal weight are in ascending order of row. No key appears twice. An empty
// entry has weight 0 and row -1. The list depends neither on the order in which keys are offered, nor on how often.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

template <class T>
struct TopList {
  T* weights;         // [size]
  core::Index* rows;  // [size]
  core::Index size;

  /// Offers a key with its weight > 0. A key that is offered again must have the same weight.
  KOKKOS_INLINE_FUNCTION void admit(T weight, core::Index row) const {
    if (is_ahead(size - 1, weight, row)) return;
    const core::Index at = first([&](core::Index i) { return !is_ahead(i, weight, row); });
    if (rows[at] == row) return;  // the list has this key already, with the same weight
    const core::Index end = first([&](core::Index i) { return i == size - 1 || weights[i] == T(0); });
    for (core::Index i = end; i > at; --i) {
      weights[i] = weights[i - 1];
      rows[i] = rows[i - 1];
    }
    weights[at] = weight;
    rows[at] = row;
  }

  /// A query sees a key at most m = most_times times. The caller multiplies a key's weight by the number of times
  /// before it offers the key. If the weight before this multiplication is at most last() * skip_factor(m), the key
  /// need not be offered, because m times this weight, also after rounding, is below the last entry's weight.
  KOKKOS_INLINE_FUNCTION static T skip_factor(core::Index most_times) { return (1 - T(1e-6)) / T(most_times); }
  KOKKOS_INLINE_FUNCTION T last() const { return weights[size - 1]; }

 private:
  /// Returns the first entry for which `holds` is true. There must be such an entry, and `holds` must be true for all
  /// entries after it.
  template <class Holds>
  KOKKOS_INLINE_FUNCTION core::Index first(const Holds& holds) const {
    core::Index low = 0, high = size - 1;
    while (low < high) {
      const core::Index middle = (low + high) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  KOKKOS_INLINE_FUNCTION bool is_ahead(core::Index i, T weight, core::Index row) const {
    return weights[i] > weight || (weights[i] == weight && rows[i] < row);
  }
};

}  // namespace annulus::kernels
