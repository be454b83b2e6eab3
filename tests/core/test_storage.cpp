// 16-bit storage types, exhaustively: every pattern, every tie between two neighbours, and the compiler's own type
// where it has one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "annulus/core/random.hpp"
#include "annulus/core/storage.hpp"

namespace annulus::core {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Half half(unsigned bits) { return {std::uint16_t(bits)}; }
BFloat16 bfloat16(unsigned bits) { return {std::uint16_t(bits)}; }

float with_bits(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The number a binary16 pattern stands for, by the definition of IEEE 754.
double half_by_definition(unsigned bits) {
  const double sign = bits & 0x8000u ? -1 : 1;
  const int exponent = int(bits >> 10 & 0x1fu);
  const int mantissa = int(bits & 0x3ffu);
  if (exponent == 31) return mantissa == 0 ? sign * double(infinity) : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Storage, HalfPatternsHaveTheirValueAndComeBack) {
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const float value = to_float(half(bits));
    const double expected = half_by_definition(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(to_float(to_half(value)))) << bits;
      continue;
    }
    EXPECT_EQ(double(value), expected) << bits;
    EXPECT_EQ(std::signbit(value), bool(bits & 0x8000u)) << bits;
    EXPECT_EQ(to_half(value).bits, bits);
  }
}

TEST(Storage, BFloat16PatternsAreUpperHalvesAndComeBack) {
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const float value = to_float(bfloat16(bits));
    const float expected = with_bits(bits << 16);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value)))) << bits;
      continue;
    }
    EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(to_bfloat16(value).bits, bits);
  }
}

// Midway between two neighbouring numbers |a| < |b| of a storage type lies a tie: it is rounded to the even pattern,
// the next smaller float to a, the next larger one to b. Patterns of one sign have the order of their numbers' sizes;
// `last` is the largest finite one.
template <class Store, class From>
void check_ties(unsigned last, From&& from, Store&& store) {
  for (const unsigned sign : {0u, 0x8000u}) {
    for (unsigned bits = 0; bits < last; ++bits) {
      const unsigned a = sign | bits, b = sign | (bits + 1);
      const double middle = (double(to_float(from(a))) + double(to_float(from(b)))) / 2;
      const float tie = float(middle);
      if (double(tie) != middle) continue;  // between the smallest bfloat16 numbers there is no float
      EXPECT_EQ(store(tie).bits, a % 2 == 0 ? a : b) << tie;
      EXPECT_EQ(store(std::nextafterf(tie, 0.0f)).bits, a) << tie;
      EXPECT_EQ(store(std::nextafterf(tie, sign ? -infinity : infinity)).bits, b) << tie;
    }
  }
}

TEST(Storage, HalfRoundsToNearestTiesToEven) { check_ties(0x7bffu, half, to_half); }

TEST(Storage, BFloat16RoundsToNearestTiesToEven) { check_ties(0x7f7fu, bfloat16, to_bfloat16); }

TEST(Storage, BeyondTheLargestNumberIsInfinity) {
  EXPECT_EQ(to_float(to_half(65519.996f)), 65504.0f);  // less than half a step above the largest
  EXPECT_EQ(to_float(to_half(65520.0f)), infinity);
  EXPECT_EQ(to_float(to_half(-1e30f)), -infinity);
  EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(to_float(to_bfloat16(with_bits(0x7f7f7fffu))), with_bits(0x7f7f0000u));
}

// Arm's __fp16 is the same type, and older than _Float16 in C++.
#if defined(__aarch64__)
using CompilersHalf = __fp16;
#elif defined(__FLT16_MAX__)
using CompilersHalf = _Float16;
#endif

#if defined(__aarch64__) || defined(__FLT16_MAX__)
TEST(Storage, HalfEqualsTheCompilersHalf) {
  // Every sign and exponent of float with many mantissas: 2^22 numbers, converted both ways.
  for (std::uint64_t i = 0; i < (std::uint64_t(1) << 22); ++i) {
    const std::uint32_t mantissa = std::uint32_t(random_bits(1, TensorId::q, Index(i))) & 0x7fffffu;
    const float value = with_bits(std::uint32_t(i & 0x1ffu) << 23 | mantissa);
    const CompilersHalf rounded = static_cast<CompilersHalf>(value);
    std::uint16_t bits = 0;
    std::memcpy(&bits, &rounded, sizeof bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(to_half(value))));
    } else {
      ASSERT_EQ(to_half(value).bits, bits) << value;
      ASSERT_EQ(to_float(half(bits)), float(rounded)) << value;
    }
  }
}
#endif

TEST(Storage, LoadAndStoreOfEveryType) {
  float f = 0;
  double d = 0;
  Half h;
  BFloat16 b;
  const double third = 1.0 / 3;
  store_as(f, third);
  store_as(d, third);
  store_as(h, third);
  store_as(b, third);
  EXPECT_EQ(load_as<double>(d), third);
  EXPECT_EQ(load_as<double>(f), double(float(third)));
  EXPECT_EQ(load_as<double>(h), std::ldexp(1365, -12));  // 1/3 = 1.0101..b * 2^-2, 11 bits
  EXPECT_EQ(load_as<double>(b), std::ldexp(171, -9));    // 8 bits, rounded up
  EXPECT_EQ(load_as<float>(d), float(third));
}

}  // namespace
}  // namespace annulus::core
