// The normalizer of a row: two numbers that turn the row's scores into probabilities again, for the backward pass and
// for statistics:
//   P = factor * 2^(s2 - shift), where s2 is the score in base 2 (State in attention.hpp).
//
// An LSE would be enough, but an LSE of 2,000, rounded to float32, has an error of 6e-5, and an LSE of 100,000 has an
// error of 4e-3. P would have the same relative error. (Large scores cause no such error, because both passes round
// them equally.) Here `shift` is an integer, which float32 holds exactly if |shift| < 2^24. Then `factor` is between
// 1/2 and sqrt(2) and has all the digits of the sum.
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

/// Returns the normalizer of a row that saw no key. It makes every probability 0 * 2^-inf = 0.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> no_normalizer() {
  return {T(INFINITY), T(0)};
}

/// Returns the normalizer unchanged if its factor is finite. Otherwise the result has factor 1 and shift NaN, so that
/// all probabilities of the row are NaN, except those of hidden pairs, which are 0.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> with_finite_factor(const Normalizer<T>& normalizer) {
  return normalizer.factor * T(0) == T(0) ? normalizer : Normalizer<T>{T(NAN), T(1)};
}

/// Returns the normalizer of a row whose weights 2^(s2 - m + bias) add up to f 2^e. The normalizer stays the same if m
/// grows by an integer and e shrinks by the same integer. Above 2^24 float32 has no odd integers, so `shift` may be
/// rounded. `factor` then contains the difference.
template <class T>
KOKKOS_INLINE_FUNCTION Normalizer<T> normalizer_of(T m, double f, double e, double bias) {
  const T shift = m + T(e - bias);
  const double lost = e - bias - (double(shift) - double(m));
  return {shift, T(core::exp2(-lost) / f)};
}

}  // namespace annulus::kernels
