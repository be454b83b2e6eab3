// Random numbers by counter: the generator's published values, moments, independence of neighbours, tensors and seeds,
// and values that must never change.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "annulus/core/normals.hpp"
#include "support/random_normal.hpp"

namespace annulus::core {
namespace {

constexpr Index count = 1 << 18;
// Five standard deviations of a mean of `count` numbers of variance 1. Seeds are fixed: every run has the same result.
const double five_sigma = 5 / std::sqrt(double(count));

std::vector<double> stream(std::uint64_t seed, TensorId tensor) {
  std::vector<double> values(std::size_t{count});
  fill_normals({seed, tensor, DType::float64}, {0, count}, values.data());
  return values;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b, Index lag = 0) {
  double sum = 0;
  for (Index i = 0; i + lag < count; ++i) sum += a[std::size_t(i)] * b[std::size_t(i + lag)];
  return sum / double(count);
}

/// (x^2 - 1) / sqrt(2), also of mean 0 and variance 1. Its correlation shows whether sizes depend, whatever the signs.
std::vector<double> squares(std::vector<double> values) {
  for (double& x : values) x = (x * x - 1) / std::numbers::sqrt2;
  return values;
}

// Known answers that come with the generator's description (Random123).
TEST(Random, ThreefryIsThePublishedOne) {
  const auto words = [](Words key, Words counter) {
    const Words x = threefry(key, counter);
    return std::pair{x.low, x.high};
  };
  EXPECT_EQ(words({0, 0}, {0, 0}), std::pair(0x6b200159u, 0x99ba4efeu));
  EXPECT_EQ(words({~0u, ~0u}, {~0u, ~0u}), std::pair(0x1cb996fcu, 0xbb002be7u));
  EXPECT_EQ(words({0x13198a2eu, 0x03707344u}, {0x243f6a88u, 0x85a308d3u}), std::pair(0xc4923a9cu, 0x483df7a0u));
}

// Compares with Box and Muller's formula in float64, for extreme angles and radii and for 1,000 random words.
TEST(Random, BoxMullerIsRightToFloat32) {
  std::vector<std::uint32_t> words{0, 1, 2, 3, 0x7fffffffu, 0xfffffffeu, 0xffffffffu, 0x3fffffffu, 0x40000000u};
  for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
    for (const std::uint32_t in : {0u, 1u, 0x1fffffffu, 0x20000000u, 0x20000001u, 0x3fffffffu}) {
      words.push_back(quarter << 30 | in);
    }
  }
  for (Index i = 0; i < 1000; ++i) words.push_back(std::uint32_t(random_bits(5, TensorId::q, i)));
  for (const std::uint32_t a : words) {
    const float u = (float(a >> 1) + 0.5f) / 0x1p31f;
    const double radius = std::sqrt(-2 * std::log(double(u)));
    for (const std::uint32_t b : words) {
      const double angle = 2 * std::numbers::pi * ((double(b) + 0.5) / 0x1p32 - 0.125);
      const NormalPair pair = box_muller({a, b});
      const double even = radius * std::cos(angle), odd = radius * std::sin(angle);
      // Where sine or cosine is nearly 0, rounding of the angle in float64 changes it by about 1e-15.
      ASSERT_NEAR(double(pair.even), even, 4e-7 * std::abs(even) + 1e-15 * radius) << a << " " << b;
      ASSERT_NEAR(double(pair.odd), odd, 4e-7 * std::abs(odd) + 1e-15 * radius) << a << " " << b;
    }
  }
}

TEST(Random, Moments) {
  for (const std::uint64_t seed : {0ull, 1ull, ~0ull}) {
    const std::vector<double> x = stream(seed, TensorId::q);
    double mean = 0, square = 0, third = 0, fourth = 0;
    for (const double value : x) {
      mean += value / double(count);
      square += std::pow(value, 2) / double(count);
      third += std::pow(value, 3) / double(count);
      fourth += std::pow(value, 4) / double(count);
    }
    // Variances of x, x^2, x^3 and x^4 are 1, 2, 15 and 96.
    EXPECT_NEAR(mean, 0, five_sigma);
    EXPECT_NEAR(square, 1, std::sqrt(2.0) * five_sigma);
    EXPECT_NEAR(third, 0, std::sqrt(15.0) * five_sigma);
    EXPECT_NEAR(fourth, 3, std::sqrt(96.0) * five_sigma);
  }
}

TEST(Random, NeighboursAreIndependent) {
  const std::vector<double> x = stream(1, TensorId::q), y = squares(x);
  for (const Index lag : {1, 2, 3, 4, 8, 64, 128, 512, 4096}) {
    EXPECT_LT(std::abs(correlation(x, x, lag)), five_sigma) << lag;
    EXPECT_LT(std::abs(correlation(y, y, lag)), five_sigma) << lag;
    EXPECT_LT(std::abs(correlation(x, y, lag)), five_sigma) << lag;
  }
}

TEST(Random, TensorsAndSeedsAreIndependent) {
  const std::vector<double> q = stream(1, TensorId::q);
  for (const auto& other : {stream(1, TensorId::k), stream(1, TensorId::v), stream(2, TensorId::q),
                            stream(0, TensorId::k), stream(1ull << 63, TensorId::q)}) {
    for (const Index lag : {0, 1, 2}) {
      EXPECT_LT(std::abs(correlation(q, other, lag)), five_sigma) << lag;
      EXPECT_LT(std::abs(correlation(other, q, lag)), five_sigma) << lag;
      EXPECT_LT(std::abs(correlation(squares(q), squares(other), lag)), five_sigma) << lag;
    }
  }
}

// Pairs of neighbouring numbers fill the cells of a 16 x 16 board evenly, as independent numbers do; each row and each
// column of the board holds a sixteenth of the numbers.
TEST(Random, NeighboursFillTheBoardEvenly) {
  const auto cell = [](double x) { return std::size_t(16 * 0.5 * std::erfc(-x / std::numbers::sqrt2)); };
  for (const Index lag : {1, 2}) {
    for (const std::uint64_t seed : {1ull, 2ull}) {
      const std::vector<double> x = stream(seed, TensorId::k);
      std::vector<double> seen(256);
      Index pairs = 0;
      for (std::size_t i = 0; i + std::size_t(lag) < x.size(); i += 2 * std::size_t(lag), ++pairs) {
        ++seen[16 * cell(x[i]) + cell(x[i + std::size_t(lag)])];
      }
      const double expected = double(pairs) / 256;
      double chi_square = 0;
      for (const double n : seen) chi_square += (n - expected) * (n - expected) / expected;
      EXPECT_NEAR(chi_square, 255, 5 * std::sqrt(2 * 255.0)) << lag << " " << seed;
    }
  }
}

TEST(Random, NoTwoNumbersShareTheirBits) {
  std::set<std::uint64_t> seen;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (const TensorId tensor : {TensorId::q, TensorId::k, TensorId::v, TensorId::dout, TensorId::dlse}) {
      for (Index i = 0; i < 4096; ++i) seen.insert(random_bits(seed, tensor, i));
      for (Index i = 0; i < 64; ++i) seen.insert(random_bits(seed, tensor, (Index(1) << 33) + i));
    }
  }
  EXPECT_EQ(seen.size(), 3u * 5u * (4096u + 64u));
}

TEST(Random, EveryBitIsSetHalfOfTheTime) {
  for (int bit = 0; bit < 64; ++bit) {
    double ones = 0;
    for (Index i = 0; i < count; ++i) ones += double(random_bits(7, TensorId::v, i) >> bit & 1u);
    EXPECT_NEAR(ones / double(count), 0.5, five_sigma / 2) << bit;
  }
}

// Indices, or seeds, that differ in one bit: half of the 64 result bits differ, whichever bit it is.
TEST(Random, OneBitChangesHalfOfTheBits) {
  for (int bit = 0; bit < 56; ++bit) {
    double by_index = 0, by_seed = 0;
    constexpr Index draws = 1024;
    for (Index i = 0; i < draws; ++i) {
      const std::uint64_t bits = random_bits(9, TensorId::k, i);
      by_index += std::popcount(bits ^ random_bits(9, TensorId::k, i ^ Index(1) << bit));
      by_seed += std::popcount(bits ^ random_bits(9 ^ std::uint64_t(1) << bit, TensorId::k, i));
    }
    // 64 coins: mean 32, variance 16.
    EXPECT_NEAR(by_index / double(draws), 32, 5 * 4 / std::sqrt(double(draws))) << bit;
    EXPECT_NEAR(by_seed / double(draws), 32, 5 * 4 / std::sqrt(double(draws))) << bit;
  }
}

// Files made by `generate` depend on these values: a change here changes every generated input. input/README.md shows
// the first two numbers.
TEST(Random, ValuesNeverChange) {
  EXPECT_EQ(random_bits(0, TensorId::q, 0), 0x750fdd3f55654062ull);
  EXPECT_EQ(random_bits(1, TensorId::k, 12345), 0xa994661d9ead602cull);
  EXPECT_EQ(random_bits(~0ull, TensorId::dout, Index(1) << 40), 0xb50f0753c26e5602ull);
  EXPECT_EQ(test::random_normal(1, TensorId::q, 0), 0x1.c5ac06p-5f);
  EXPECT_EQ(test::random_normal(1, TensorId::q, 1), 0x1.3b9e5p-2f);
  EXPECT_EQ(test::random_normal(1, TensorId::v, 999), -0x1.7aa282p+0f);
  EXPECT_EQ(test::random_normal(~0ull, TensorId::bo, Index(1) << 40), 0x1.84071cp-1f);
}

}  // namespace
}  // namespace annulus::core
