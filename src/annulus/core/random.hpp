// Makes random numbers by counter: a value is a function of (seed, tensor, global linear index) alone. So the value is
// the same on every machine and for every number of ranks and threads, and a test can find out to which index a number
// belongs.
//
//   counter  = tensor 2^56 + pair, key = seed                       two 32-bit words each, low word first
//   (a, b)   = Threefry-2x32-20(key, counter)
//   u        = (floor(a / 2) + 1/2) / 2^31                          in float32; 0 < u <= 1: numbers reach 6.66
//   angle    = 2 pi (b + 1/2) / 2^32 - pi / 4
//   numbers 2 pair and 2 pair + 1 = sqrt(-2 ln u) cos(angle), sqrt(-2 ln u) sin(angle)                (Box, Muller)
//
// The functions below evaluate these formulas in float32. They use only sums, products and square roots, each rounded
// once, so every processor gets the same bits, whether it computes one number at a time or 16 (normals.hpp). Logarithm,
// sine and cosine are polynomials, whose errors together change a number by at most 4e-7 of its size. This file defines
// the values that `generate` writes.
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>

#include "annulus/core/storage.hpp"
#include "annulus/core/types.hpp"

namespace annulus::core {

/// The tensor that a stream of numbers belongs to. The values must not change: they decide what `generate` writes.
enum class TensorId : std::uint64_t {
  q = 1,
  k = 2,
  v = 3,
  dout = 4,
  dlse = 5,
  // tensors of an attention layer
  x = 6,
  dy = 7,
  target = 8,
  wq = 9,
  wk = 10,
  wv = 11,
  wo = 12,
  bq = 13,
  bk = 14,
  bv = 15,
  bo = 16
};

/// 64 bits as two words, the low one first.
struct Words {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};
KOKKOS_FORCEINLINE_FUNCTION Words words_of(std::uint64_t bits) {
  return {std::uint32_t(bits), std::uint32_t(bits >> 32)};
}

namespace detail {
/// One round: a sum, a rotation and an exclusive or.
KOKKOS_FORCEINLINE_FUNCTION void mix(Words& x, int bits) {
  x.low += x.high;
  x.high = (x.high << bits | x.high >> (32 - bits)) ^ x.low;
}
KOKKOS_FORCEINLINE_FUNCTION void mix(Words& x, int a, int b, int c, int d) {
  mix(x, a);
  mix(x, b);
  mix(x, c);
  mix(x, d);
}
}  // namespace detail

/// Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011), which
/// JAX uses, too. According to the paper, 13 rounds are enough to pass the statistical tests of BigCrush.
KOKKOS_FORCEINLINE_FUNCTION Words threefry(Words key, Words counter) {
  const std::uint32_t k0 = key.low, k1 = key.high, k2 = 0x1bd11bdau ^ k0 ^ k1;
  Words x{counter.low + k0, counter.high + k1};
  const auto add = [&x](std::uint32_t low, std::uint32_t high) { x = {x.low + low, x.high + high}; };
  detail::mix(x, 13, 15, 26, 6);
  add(k1, k2 + 1);
  detail::mix(x, 17, 29, 16, 24);
  add(k2, k0 + 2);
  detail::mix(x, 13, 15, 26, 6);
  add(k0, k1 + 3);
  detail::mix(x, 17, 29, 16, 24);
  add(k1, k2 + 4);
  detail::mix(x, 13, 15, 26, 6);
  add(k2, k0 + 5);
  return x;
}

/// Each tensor has 2^56 counters, which is enough: `generate` makes at most 1e18 bytes of float64, 2^55.8 pairs.
KOKKOS_FORCEINLINE_FUNCTION Words counter_of(TensorId tensor, Index pair) {
  return words_of((std::uint64_t(tensor) << 56) + std::uint64_t(pair));
}

/// 64 random bits.
inline std::uint64_t random_bits(std::uint64_t seed, TensorId tensor, Index index) {
  const Words words = threefry(words_of(seed), counter_of(tensor, index));
  return std::uint64_t(words.high) << 32 | words.low;
}

/// Returns -2 ln u for u = (floor(word / 2) + 1/2) / 2^31 = m 2^e with 1/sqrt(2) <= m < sqrt(2). -2 ln m is computed as
/// (m - 1) times a polynomial of degree 7 (largest relative error 2.3e-7).
KOKKOS_FORCEINLINE_FUNCTION float minus_two_log(std::uint32_t word) {
  const float u = (float(std::int32_t(word >> 1)) + 0.5f) * 0x1p-31f;
  const std::uint32_t bits = detail::bits_of(u);
  constexpr std::uint32_t sqrt_half = 0x3f3504f3u;  // the bits of 1/sqrt(2)
  const std::int32_t e = std::int32_t(bits - sqrt_half) >> 23;
  const float f = detail::float_of(bits - (std::uint32_t(e) << 23)) - 1.0f;
  float p = 0.19790702f;
  p = p * f - 0.32252496f;
  p = p * f + 0.34556413f;
  p = p * f - 0.39826697f;
  p = p * f + 0.49937814f;
  p = p * f - 0.66669214f;
  p = p * f + 1.0000075f;
  p = p * f - 1.9999999f;
  return f * p + float(e) * -1.3862944f;  // -2 ln 2
}

/// Two independent standard normal numbers.
struct NormalPair {
  float even = 0;
  float odd = 0;
};
/// The upper two bits of words.high select a quarter of the circle. The other bits give t with |t| < 1/2: the angle
/// inside the quarter is t pi / 2. Polynomials of t squared give sin(t pi / 2) / t and cos(t pi / 2). The quarter
/// decides which of the two numbers is the sine times the radius, and which signs both numbers have.
KOKKOS_FORCEINLINE_FUNCTION NormalPair box_muller(Words words) {
  const float radius = std::sqrt(minus_two_log(words.low));
  const std::uint32_t b = words.high;
  const float t = (float(std::int32_t(b & 0x3fffffffu) - 0x20000000) + 0.5f) * 0x1p-30f;
  const float tt = t * t;
  float s = -0.0046021491f;
  s = s * tt + 0.07968022f;
  s = s * tt - 0.6459635f;
  s = s * tt + 1.5707964f;
  s = s * t;
  float c = -0.020408159f;
  c = c * tt + 0.25359857f;
  c = c * tt - 1.2336971f;
  c = c * tt + 1.0f;
  // Quarters 0, 1, 2, 3: (cos, sin) = (c, s), (-s, c), (-c, -s), (s, -c). Bit operations swap them without a branch.
  const std::uint32_t odd_quarter = 0u - (b >> 30 & 1u);  // all bits or none
  const std::uint32_t exchange = (detail::bits_of(c) ^ detail::bits_of(s)) & odd_quarter;
  const std::uint32_t cos_sign = (b + 0x40000000u) & 0x80000000u, sin_sign = b & 0x80000000u;
  return {radius * detail::float_of(detail::bits_of(c) ^ exchange ^ cos_sign),
          radius * detail::float_of(detail::bits_of(s) ^ exchange ^ sin_sign)};
}

}  // namespace annulus::core
