// The entropy of a row's softmax from its running sums (State).
#pragma once

#include <Kokkos_Core.hpp>
#include <numbers>

namespace annulus::kernels {

/// Returns -sum P ln P = lse - ln(2) score_sum / l, in nats. Rounding can make the entropy of a row that sees one key
/// slightly negative; the result is then 0.
KOKKOS_INLINE_FUNCTION double entropy_of(double lse, double score_sum, double l) {
  const double entropy = lse - std::numbers::ln2 * (score_sum / l);
  return entropy < 0 ? 0 : entropy;
}

}  // namespace annulus::kernels
