// What makes probabilities of a row's scores again once its softmax is finished: P = factor * 2^(s2 - shift), where
// s2 = scale * log2(e) * q.k.
//
// An LSE would do it, too, but rounded to float32 it is wrong by 6e-5 at 2,000 and by 4e-3 at 100,000, and P with it,
// while scores that are as large are rounded to the same numbers in both passes. Here `shift` is an integer that
// float32 holds exactly and `factor`, between 1/2 and sqrt(2), has all the digits of the sum.
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Numbers per (batch, row, head) in memory: shift, factor.
inline constexpr core::Index normalizer_numbers = 2;

template <class T>
struct Normalizer {
  T shift;
  T factor;
};

/// The normalizer of a row that saw no key: every probability is 0 * 2^-inf.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> no_normalizer() {
  return {T(INFINITY), T(0)};
}

/// The same probabilities from a factor that is finite: where it is not, they are NaN by the shift, and 0 where a pair
/// is hidden.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> with_finite_factor(const Normalizer<T>& normalizer) {
  return normalizer.factor * T(0) == T(0) ? normalizer : Normalizer<T>{T(NAN), T(1)};
}

/// The normalizer of a row whose weights 2^(s2 - m + bias) add up to f 2^e. Neither of its numbers depends on how the
/// sum and m share the scale. Beyond 2^24 float32 has no odd integers, so the factor makes good what rounding takes
/// from the shift.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> normalizer_of(T m, double f, double e, double bias) {
  const T shift = m + T(e - bias);
  const double lost = e - bias - (double(shift) - double(m));
  return {shift, T(core::exp2(-lost) / f)};
}

}  // namespace annulus::kernels
