// Weights of the softmax with exact powers of two, as in kernels/host/online_softmax.hpp. The shift m is an even
// integer, so the mantissa of a weight depends on its score alone.
#pragma once

#include <Kokkos_Core.hpp>
#include <cfloat>
#include <cstdint>
#include <cstring>

#include "annulus/core/kokkos_compat.hpp"

namespace annulus::kernels::device {

/// Returns 2^n for an integer n up to the largest exponent, but 0 if 2^n is below the normal numbers, or if n is NaN.
/// The power is made from bits, because exp2() may be inexact.
KOKKOS_INLINE_FUNCTION float power_of_two(float n) {
  if (!(n >= -126)) return 0;
  const std::uint32_t bits = std::uint32_t(std::int32_t(n) + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof power);
  return power;
}
KOKKOS_INLINE_FUNCTION double power_of_two(double n) {
  if (!(n >= -1022)) return 0;
  const std::uint64_t bits = std::uint64_t(std::int64_t(n) + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/// Largest number of type T. (nvcc warns about std::numeric_limits in device functions.)
template <class T>
constexpr T largest_number = sizeof(T) == 8 ? T(DBL_MAX) : T(FLT_MAX);

/// Returns the shift for a row whose largest score is `score`: an even integer 16 to 18 above the score
/// (online_softmax.hpp says why), or largest_number if this integer would be larger.
template <class T>
KOKKOS_INLINE_FUNCTION T shift_above(T score) {
  constexpr T largest = largest_number<T>;
  const T shift = 2 * core::ceil(score / 2) + 16;
  return shift < largest ? shift : largest;
}

/// 2^(score - shift + bias). A score of +inf counts as the largest number; a score of -inf has weight 0.
template <class T>
KOKKOS_INLINE_FUNCTION T weight_of(T score, T shift, T bias) {
  constexpr T largest = largest_number<T>;
  if (score == T(-INFINITY)) return 0;
  const T s = score > largest ? largest : score;
  const T n = core::floor(s);
  return core::exp2(s - n) * power_of_two(n - shift + bias);
}

}  // namespace annulus::kernels::device
