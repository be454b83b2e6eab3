// Ranges of normal numbers: every instruction set, type and position gives the bits of the definition; and many numbers
// have the right distribution.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "annulus/core/normals.hpp"
#include "annulus/core/storage.hpp"
#include "support/random_normal.hpp"

namespace annulus::core {
namespace {

bool are_finite(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
}

/// The numbers of the range, made between guard elements that must not change.
template <class Stored>
std::vector<Stored> made(const Normals& normals, Interval numbers, InstructionSet set) {
  constexpr std::size_t guard = 16 * sizeof(Stored);
  std::vector<std::byte> bytes(std::size_t(numbers.size()) * sizeof(Stored) + 2 * guard, std::byte{0x5a});
  fill_normals(normals, numbers, bytes.data() + guard, set);
  const auto untouched = [&](std::size_t from) {
    return std::all_of(bytes.begin() + std::ptrdiff_t(from), bytes.begin() + std::ptrdiff_t(from + guard),
                       [](std::byte b) { return b == std::byte{0x5a}; });
  };
  EXPECT_TRUE(untouched(0) && untouched(bytes.size() - guard));
  std::vector<Stored> stretch(std::size_t(numbers.size()));
  if (!stretch.empty()) {
    std::memcpy(stretch.data(), bytes.data() + guard, stretch.size() * sizeof(Stored));
  }
  return stretch;
}

/// Every number of the range has the bits of the definition, which makes one number at a time.
template <class Stored>
void expect_definition(DType type, float scale, Interval numbers) {
  for (const std::uint64_t seed : {1ull, 0xfedcba9876543210ull}) {
    const Normals normals{seed, TensorId::v, type, scale};
    std::vector<Stored> expected(std::size_t(numbers.size()));
    for (Index i = numbers.begin; i < numbers.end; ++i) {
      store_as(expected[std::size_t(i - numbers.begin)], scale * test::random_normal(seed, TensorId::v, i));
    }
    for (const InstructionSet set : usable_instruction_sets()) {
      const std::vector<Stored> actual = made<Stored>(normals, numbers, set);
      EXPECT_TRUE(numbers.empty() || std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(Stored)) == 0)
          << name_of(set) << ", " << name_of(type) << ", " << numbers.begin << " ... " << numbers.end;
    }
  }
}

TEST(Normals, EveryInstructionSetMakesTheBitsOfTheDefinition) {
  // Whole vectors, parts of them, one number, none; a pair cut in two; counters whose low word overflows (2^33).
  const Index far = Index(1) << 33;
  for (const Interval numbers :
       {Interval{0, 4096}, Interval{1, 2}, Interval{5, 5}, Interval{3, 200}, Interval{127, 385},
        Interval{far - 300, far + 131}, Interval{(Index(1) << 56) + 7, (Index(1) << 56) + 99}}) {
    for (const float scale : {1.0f, 0.1f}) {
      expect_definition<double>(DType::float64, scale, numbers);
      expect_definition<float>(DType::float32, scale, numbers);
      expect_definition<Half>(DType::float16, scale, numbers);
      expect_definition<BFloat16>(DType::bfloat16, scale, numbers);
    }
  }
}

// Scales that lead to subnormal and infinite halves: vector code rounds them as code for single numbers does.
TEST(Normals, HalvesOfAllSizesAreTheDefinitions) {
  for (const float scale : {1e-4f, 1e-6f, 3e4f, 1e9f}) expect_definition<Half>(DType::float16, scale, {0, 2048});
}

/// Probability that a standard normal number is below x.
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The largest distance between the empirical distribution function of n numbers and the normal one
// (Kolmogorov-Smirnov). One sample in 1000 exceeds 1.95 / sqrt(n).
TEST(Normals, KolmogorovSmirnovDistance) {
  constexpr Index n = 1 << 20;
  for (const std::uint64_t seed : {1ull, 2ull, 3ull}) {
    std::vector<float> x(n);
    fill_normals({seed, TensorId::q}, {0, n}, x.data());
    ASSERT_TRUE(are_finite(x));
    std::sort(x.begin(), x.end());
    double distance = 0;
    for (Index i = 0; i < n; ++i) {
      const double p = normal_cdf(double(x[std::size_t(i)]));
      distance = std::max({distance, p - double(i) / n, double(i + 1) / n - p});
    }
    EXPECT_LT(distance, 1.95 / std::sqrt(double(n))) << seed;
  }
}

// P(x > k) and P(x < -k) for k = 0 ... 5, counted in 2^26 numbers. Beyond 5, about 19 are expected on each side.
TEST(Normals, TailsAreThoseOfTheDistribution) {
  constexpr Index n = Index(1) << 26, step = 1 << 16;
  std::vector<float> x(step);
  double above[6] = {}, below[6] = {};
  float largest = 0;
  for (Index first = 0; first < n; first += step) {
    fill_normals({4, TensorId::k}, {first, first + step}, x.data());
    for (int k = 0; k < 6; ++k) {
      for (const float value : x) {
        above[k] += value > float(k);
        below[k] += value < float(-k);
      }
    }
    ASSERT_TRUE(are_finite(x));
    for (const float value : x) largest = std::max(largest, std::abs(value));
  }
  for (int k = 0; k < 6; ++k) {
    const double p = normal_cdf(-k), deviation = std::sqrt(n * p * (1 - p));
    EXPECT_NEAR(above[k], n * p, 4 * deviation) << k;
    EXPECT_NEAR(below[k], n * p, 4 * deviation) << k;
  }
  EXPECT_LE(largest, 6.67f);
}

}  // namespace
}  // namespace annulus::core
