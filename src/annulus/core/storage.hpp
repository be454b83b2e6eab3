// Defines 16-bit storage types. We define our own types, because in builds without a GPU back end Kokkos' half_t and
// bhalf_t are float. Our types only store numbers: kernels convert them to float or double, or pass their bits to
// instructions that multiply 16-bit numbers.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace annulus::core {

/// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
struct Half {
  std::uint16_t bits = 0;
};

/// The upper half of a binary32: 1 sign, 8 exponent (bias 127), 7 mantissa bits.
struct BFloat16 {
  std::uint16_t bits = 0;
};

namespace detail {
/// Reinterprets bits. We use a union, because not all device code can use std::bit_cast.
union FloatBits {
  float value;
  std::uint32_t bits;
};
KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(float value) {
  FloatBits u;
  u.value = value;
  return u.bits;
}
KOKKOS_INLINE_FUNCTION float float_of(std::uint32_t bits) {
  FloatBits u;
  u.bits = bits;
  return u.value;
}
}  // namespace detail

/// Returns the same number: float32 holds every bfloat16 number exactly.
KOKKOS_INLINE_FUNCTION float to_float(BFloat16 x) { return detail::float_of(std::uint32_t(x.bits) << 16); }

/// Returns the same number, also for subnormal numbers, infinities and NaN.
KOKKOS_INLINE_FUNCTION float to_float(Half x) {
  const std::uint32_t sign = std::uint32_t(x.bits & 0x8000u) << 16;
  const std::uint32_t rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return detail::float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // With exponent and mantissa shifted into place the float is the number times 2^-112. The product with 2^112 is
  // exact, also for subnormal numbers.
  return detail::float_of(sign | detail::bits_of(detail::float_of(rest << 13) * 0x1p112f));
}

/// Rounds to nearest, ties to even; NaN stays NaN.
KOKKOS_INLINE_FUNCTION BFloat16 to_bfloat16(float x) {
  const std::uint32_t u = detail::bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t(u >> 16 | 0x40u)};
  return {std::uint16_t((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}

/// Rounds to nearest, ties to even; |x| >= 65520 gives an infinity; NaN stays NaN. The code computes every case and
/// chooses with bit masks: GCC 12 would compile ?: to a branch, so a loop of conversions would not become vector code.
KOKKOS_INLINE_FUNCTION Half to_half(float x) {
  const std::uint32_t u = detail::bits_of(x);
  const std::uint32_t sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
  const std::uint32_t top = mag < 0x477ff000u ? mag : 0x477ff000u;  // 65520 and more round to 0x7c00, infinity
  const std::uint32_t normal = (top + 0xfffu + (top >> 13 & 1u) - 0x38000000u) >> 13;
  // Below 2^-14 a half is a multiple of 2^-24. When 1/2 is added, the hardware rounds the sum to such a multiple.
  const std::uint32_t subnormal = detail::bits_of(detail::float_of(mag) + 0.5f) - detail::bits_of(0.5f);
  const std::uint32_t small = 0u - ((mag - 0x38800000u) >> 31);  // all bits or none
  const std::uint32_t nan = (0x7f800000u - mag) >> 31 << 9;      // makes infinity a NaN
  return {std::uint16_t(sign | (subnormal & small) | (normal & ~small) | nan)};
}

// Load and store numbers as T, the type of the arithmetic (float or double), whatever the storage type is.
template <class T>
KOKKOS_INLINE_FUNCTION T load_as(const float& x) {
  return T(x);
}
template <class T>
KOKKOS_INLINE_FUNCTION T load_as(const double& x) {
  return T(x);
}
template <class T>
KOKKOS_INLINE_FUNCTION T load_as(const Half& x) {
  return T(to_float(x));
}
template <class T>
KOKKOS_INLINE_FUNCTION T load_as(const BFloat16& x) {
  return T(to_float(x));
}
template <class T>
KOKKOS_INLINE_FUNCTION void store_as(float& to, T x) {
  to = float(x);
}
template <class T>
KOKKOS_INLINE_FUNCTION void store_as(double& to, T x) {
  to = double(x);
}
template <class T>
KOKKOS_INLINE_FUNCTION void store_as(Half& to, T x) {
  to = to_half(float(x));
}
template <class T>
KOKKOS_INLINE_FUNCTION void store_as(BFloat16& to, T x) {
  to = to_bfloat16(float(x));
}

}  // namespace annulus::core
