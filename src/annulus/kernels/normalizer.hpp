// What turns a row's scores into probabilities again, once its softmax is finished: P = factor * 2^(s2 - shift), where
// s2 = scale * log2(e) * q.k.
//
// An LSE would do it, too, but rounded to float32 it has an error of 6e-5 at 2,000 and of 4e-3 at 100,000, and so has
// P. (Large scores have no such error: both passes round them to the same numbers.) Here `shift` is an integer that
// float32 holds exactly; `factor`, between 1/2 and sqrt(2), has all the digits of the sum.
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

/// The same probabilities from a finite factor. If the given factor is not finite, the shift becomes NaN, so that
/// probabilities are NaN, except for hidden pairs, whose probability is 0.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> with_finite_factor(const Normalizer<T>& normalizer) {
  return normalizer.factor * T(0) == T(0) ? normalizer : Normalizer<T>{T(NAN), T(1)};
}

/// The normalizer of a row whose weights 2^(s2 - m + bias) add up to f 2^e. Neither number depends on how the sum and
/// m divide the scale. Above 2^24 float32 has no odd integers: what rounding takes from the shift is then in the
/// factor.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> normalizer_of(T m, double f, double e, double bias) {
  const T shift = m + T(e - bias);
  const double lost = e - bias - (double(shift) - double(m));
  return {shift, T(core::exp2(-lost) / f)};
}

}  // namespace annulus::kernels
