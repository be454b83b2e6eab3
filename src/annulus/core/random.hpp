// Random numbers by counter: a value is a function of (seed, tensor, global linear index) alone, so it is the same on
// every machine, for every number of ranks, and a test can tell where any number came from.
#pragma once

#include <cstdint>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Which tensor a stream of numbers belongs to; part of the file format of `generate`, so the values are fixed.
enum class TensorId : std::uint64_t {
  q = 1,
  k = 2,
  v = 3,
  dout = 4,
  dlse = 5,
  // of an attention layer
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

/// Scrambles 64 bits, one to one: every input bit moves about half of the output bits (the finaliser of splitmix64).
constexpr std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// 64 random bits. Seed, tensor and index are mixed in one after another; the odd constant (2^64 / golden ratio) keeps
/// small neighbouring numbers apart and zero away from zero.
constexpr std::uint64_t random_bits(std::uint64_t seed, TensorId tensor, Index index) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  const std::uint64_t stream = scramble(scramble(seed + step) + std::uint64_t(tensor) * step);
  return scramble(stream + scramble((std::uint64_t(index) + 1) * step));
}

/// About normal, mean 0 and variance 1: the sum of four independent 16-bit integers, centred and scaled. One integer
/// sum, one exact conversion and one rounded product, so every IEEE machine gets the same bits. |value| < 3.47.
constexpr double random_normal(std::uint64_t seed, TensorId tensor, Index index) {
  const std::uint64_t bits = random_bits(seed, tensor, index);
  std::int64_t sum = 0;
  for (int part = 0; part < 4; ++part) sum += std::int64_t(bits >> 16 * part & 0xffffu);
  constexpr std::int64_t mean = 2 * 0xffff;                     // 4 * 65535 / 2
  constexpr double one_over_deviation = 0x1.bb67ae86627e7p-16;  // variance 4 (2^32 - 1) / 12
  return double(sum - mean) * one_over_deviation;
}

}  // namespace annulus::core
