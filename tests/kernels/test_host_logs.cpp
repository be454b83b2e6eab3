// Logarithms of sums (kernels/host/log_sums.hpp) compared with those of long double.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "annulus/kernels/host/log_sums.hpp"

namespace annulus::test {
namespace {

using kernels::host::log_near_one;
using kernels::host::log_of_scaled;
using kernels::host::split_sums;
using kernels::host::SplitSums;

constexpr double infinity = std::numeric_limits<double>::infinity(), root = std::numbers::sqrt2 / 2;

/// How far `x` is from `exact`, in units of the last place of `exact`.
double units_off(double x, long double exact) {
  const double nearest = double(exact);
  const double unit = std::nextafter(std::abs(nearest), infinity) - std::abs(nearest);
  return double(std::abs(static_cast<long double>(x) - exact) / unit);
}

TEST(HostLogs, ErrorIsBelowOneUnitInTheLastPlace) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> between(root, 2 * root);
  for (int i = 0; i < 200000; ++i) {
    const double f = i < 100      ? 1 + (i - 50) * 0x1p-52
                     : i % 3 == 0 ? 1 + (between(random) - 1) * 0x1p-20
                                  : between(random);
    ASSERT_LT(units_off(log_near_one(f), std::log(static_cast<long double>(f))), 1) << f;
  }
  EXPECT_EQ(log_near_one(1), 0);
  EXPECT_EQ(units_off(1.0 + 0x1p-52, 1), 1) << "the measure itself";
}

TEST(HostLogs, PowersOfTwoAreAddedWithoutLoss) {
  for (const double n : {-1e9, -4194304., -1074., -1., 0., 1., 3., 64., 1023., 99998., 1e6, 1e9, 1e300}) {
    for (const double f : {root, 0.75, 1., 1.3}) {
      const long double exact = n * std::numbers::ln2_v<long double> + std::log(static_cast<long double>(f));
      if (exact == 0) continue;
      EXPECT_LT(units_off(log_of_scaled(n, log_near_one(f)), exact), 1.5) << n << ' ' << f;
    }
  }
  EXPECT_EQ(log_of_scaled(0, 0), 0);
}

template <class T>
void expect_split(const std::vector<T>& sums) {
  for (std::size_t first = 0; first < sums.size(); first += 7) {  // blocks that are not full
    const int count = int(std::min<std::size_t>(7, sums.size() - first));
    SplitSums split;
    split_sums(sums.data() + first, count, split);
    for (int i = 0; i < count; ++i) {
      const double l = double(sums[first + std::size_t(i)]);
      if (!(l > 0 && l < infinity)) continue;
      EXPECT_EQ(std::ldexp(split.f[i], int(split.e[i])), l);
      EXPECT_TRUE(split.f[i] >= root && split.f[i] < 2 * root) << l;
      EXPECT_EQ(split.log_f[i], log_near_one(split.f[i])) << l;
    }
  }
}

TEST(HostLogs, SumsOfEverySizeAreSplitAlike) {
  std::vector<double> doubles{root,
                              std::nextafter(root, 0),
                              2 * root,
                              std::nextafter(2 * root, 0),
                              1,
                              6,
                              0x1p-1074,
                              0x1.8p-1040,
                              std::numeric_limits<double>::min(),
                              std::numeric_limits<double>::max()};
  std::vector<float> floats{1, 6, 0x1p-149f, 0x1.6a09e6p-1f, 0x1.6a09e8p-1f, std::numeric_limits<float>::max()};
  for (int e = -1000; e < 1000; e += 13) doubles.push_back(std::ldexp(1.37, e));
  for (int e = -120; e < 120; e += 7) floats.push_back(std::ldexp(1.71f, e));
  expect_split(doubles);
  expect_split(floats);
}

TEST(HostLogs, WhatIsNoSumOfNumbersStaysSo) {
  const double sums[] = {infinity, std::numeric_limits<double>::quiet_NaN(), 2};
  SplitSums split;
  split_sums(sums, 3, split);
  EXPECT_EQ(log_of_scaled(split.e[0] + 5, split.log_f[0]), infinity);
  EXPECT_TRUE(std::isnan(log_of_scaled(split.e[1] + 5, split.log_f[1])));
  EXPECT_TRUE(std::isnan(log_of_scaled(-infinity, split.log_f[1]))) << "a row whose first score is NaN";
  EXPECT_EQ(split.e[2], 1);
}

}  // namespace
}  // namespace annulus::test
