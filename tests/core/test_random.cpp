// Random numbers by counter: moments, independence of neighbours, tensors and seeds, and values that must never change.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "annulus/core/random.hpp"

namespace annulus::core {
namespace {

constexpr Index count = 1 << 18;
// Five standard deviations of a mean of `count` numbers of variance 1: the seeds are fixed, so the tests are too.
const double five_sigma = 5 / std::sqrt(double(count));

std::vector<double> stream(std::uint64_t seed, TensorId tensor) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(random_normal(seed, tensor, i));
  return values;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b, Index lag = 0) {
  double sum = 0;
  for (Index i = 0; i + lag < count; ++i) sum += a[std::size_t(i)] * b[std::size_t(i + lag)];
  return sum / double(count);
}

TEST(Random, MeanVarianceAndShape) {
  for (const std::uint64_t seed : {0ull, 1ull, ~0ull}) {
    const std::vector<double> x = stream(seed, TensorId::q);
    double mean = 0, square = 0, fourth = 0, largest = 0;
    for (const double value : x) {
      mean += value / double(count);
      square += value * value / double(count);
      fourth += std::pow(value, 4) / double(count);
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_LT(std::abs(mean), five_sigma);
    EXPECT_NEAR(square, 1, 2 * five_sigma);
    EXPECT_NEAR(fourth, 2.7, 0.1);  // of a sum of four uniform numbers: 3 - 1.2 / 4; a normal one has 3
    EXPECT_LT(largest, 3.47);
    EXPECT_GT(largest, 3.0);
  }
}

TEST(Random, NeighboursAreIndependent) {
  const std::vector<double> x = stream(1, TensorId::q);
  for (const Index lag : {1, 2, 3, 8, 64, 512, 4096}) EXPECT_LT(std::abs(correlation(x, x, lag)), five_sigma) << lag;
}

TEST(Random, TensorsAndSeedsAreIndependent) {
  const std::vector<double> q = stream(1, TensorId::q);
  for (const auto& other : {stream(1, TensorId::k), stream(1, TensorId::v), stream(2, TensorId::q),
                            stream(0, TensorId::k), stream(1ull << 63, TensorId::q)}) {
    for (const Index lag : {0, 1, 2}) {
      EXPECT_LT(std::abs(correlation(q, other, lag)), five_sigma) << lag;
      EXPECT_LT(std::abs(correlation(other, q, lag)), five_sigma) << lag;
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

// Files made by `generate` depend on these: a change here changes every generated input.
TEST(Random, ValuesNeverChange) {
  EXPECT_EQ(random_bits(0, TensorId::q, 0), 0x45f31b7423542a1bull);
  EXPECT_EQ(random_bits(1, TensorId::k, 12345), 0x340b78f1e597bb36ull);
  EXPECT_EQ(random_bits(~0ull, TensorId::dout, Index(1) << 40), 0x44e67d89ebd271f3ull);
  EXPECT_EQ(random_normal(1, TensorId::q, 0), 0x1.a07330fa5721ap-1);
  EXPECT_EQ(random_normal(1, TensorId::v, 999), 0x1.c28255c835ae7p-1);
}

}  // namespace
}  // namespace annulus::core
