// What generated tensors hold, and how NaN and infinity are found.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "annulus/core/storage.hpp"
#include "annulus/runfile/run_file_checks.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/generated.hpp"
#include "support/random_normal.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using core::TensorId;

template <class T>
std::vector<T> made(const runfile::GenerateSettings& what, TensorId tensor, const std::vector<Interval>& rows,
                    std::size_t count) {
  std::vector<T> numbers(count);
  fill_tensor(what.seed, generated(what, tensor), rows, numbers.data());
  return numbers;
}

TEST(Generated, DependsOnTheGlobalIndexOnly) {
  const runfile::GenerateSettings what{{2, 5, 4, 2, 3}, DType::float64, 3};
  const auto all = made<double>(what, TensorId::k, {{0, 5}}, 2 * 5 * 6);
  const auto some = made<double>(what, TensorId::k, {{1, 2}, {3, 5}}, 2 * 3 * 6);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(some[(b * 3 + 0) * 6 + i], all[(b * 5 + 1) * 6 + i]);
      EXPECT_EQ(some[(b * 3 + 2) * 6 + i], all[(b * 5 + 4) * 6 + i]);
      EXPECT_EQ(all[(b * 5 + 4) * 6 + i], test::random_normal(3, TensorId::k, Index((b * 5 + 4) * 6 + i)));
    }
  }
  // A row of q has 4 heads, a row of k has 2. Another tensor and another seed have other numbers.
  const auto q = made<double>(what, TensorId::q, {{4, 5}}, 2 * 12);
  EXPECT_EQ(q[12], test::random_normal(3, TensorId::q, (5 + 4) * 12));
  EXPECT_NE(made<double>(what, TensorId::v, {{0, 5}}, 60), all);
  EXPECT_NE(made<double>({what.shape, what.type, 4}, TensorId::k, {{0, 5}}, 60), all);
}

// Every number is the one that core/random.hpp defines, also in these cases: there are more numbers than one thread
// makes at a time; an interval begins with the second number of a Box-Muller pair; the tensor has an odd number of
// rows. CTest runs this test with one thread and with four.
TEST(Generated, IsTheDefinitionWhoeverMakesIt) {
  const runfile::GenerateSettings what{{2, 1501, 7, 7, 33}, DType::float32, 11};
  const std::vector<Interval> rows{{0, 1}, {3, 900}, {901, 902}, {1000, 1501}};
  const std::size_t row = 7 * 33, count = 1 + 897 + 1 + 501;
  const auto numbers = made<float>(what, TensorId::v, rows, 2 * count * row);
  std::size_t at = 0;
  for (Index b = 0; b < 2; ++b) {
    for (const Interval& interval : rows) {
      for (Index i = (b * 1501 + interval.begin) * Index(row); i < (b * 1501 + interval.end) * Index(row); ++i) {
        ASSERT_EQ(numbers[at++], test::random_normal(11, TensorId::v, i)) << i;
      }
    }
  }
  EXPECT_EQ(at, numbers.size());
}

TEST(Generated, TensorsMayBeScaled) {
  std::vector<double> numbers(6);
  fill_tensor(3, {TensorId::wq, DType::float64, 1, 4, 3, 0.1}, {{1, 3}}, numbers.data());
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(numbers[std::size_t(i)], 0.1f * test::random_normal(3, TensorId::wq, 3 + i));
}

TEST(Generated, IsRoundedToItsType) {
  runfile::GenerateSettings what{{1, 3, 1, 1, 2}, DType::float32, 3};
  EXPECT_EQ(made<float>(what, TensorId::q, {{1, 2}}, 2)[1], test::random_normal(3, TensorId::q, 3));
  what.type = DType::float16;
  EXPECT_EQ(made<core::Half>(what, TensorId::q, {{1, 2}}, 2)[1].bits,
            core::to_half(test::random_normal(3, TensorId::q, 3)).bits);
  what.type = DType::bfloat16;
  EXPECT_EQ(made<core::BFloat16>(what, TensorId::q, {{1, 2}}, 2)[1].bits,
            core::to_bfloat16(test::random_normal(3, TensorId::q, 3)).bits);
}

TEST(Generated, ObjectsToShapesThatCannotBe) {
  EXPECT_FALSE(runfile::objection_to({{1, 8, 6, 3, 4}}));
  EXPECT_EQ(runfile::objection_to({{1, 8, 6, 4, 4}})->extent, "kv_heads");
  EXPECT_EQ(runfile::objection_to({{1, Index(1) << 40, 1 << 20, 1, 64}})->extent, "sequence");
}

/// Checks that find_non_finite() finds the first NaN or infinity, and takes no very large, tiny or negative number for
/// NaN or infinity. Also checks largest_magnitude().
template <class T, class Make>
void expect_found(DType type, Make number) {
  std::vector<T> numbers(10000, number(1.0));
  numbers[0] = number(type == DType::float16 ? 65504.0 : 3e38);
  numbers[1] = number(-0.0);
  numbers[2] = number(1e-40);
  const auto find = [&] { return find_non_finite(numbers.data(), type, Index(numbers.size())); };
  EXPECT_FALSE(find());
  const double largest = type == DType::float16 ? 65504 : 3e38;
  EXPECT_NEAR(largest_magnitude(numbers.data(), type, 10000) / largest, 1, 0.01);
  numbers[9998] = number(-4.0);  // exact in every type; the others are at most 1
  EXPECT_EQ(largest_magnitude(numbers.data() + 2, type, 9998), 4);
  EXPECT_EQ(largest_magnitude(numbers.data(), type, 0), 0);
  numbers[9999] = number(std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(find());
  EXPECT_EQ(find()->index, 9999);
  EXPECT_TRUE(std::isnan(find()->value));
  numbers[4095] = number(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(find()->index, 4095);
  EXPECT_EQ(find()->value, -std::numeric_limits<double>::infinity());
  EXPECT_FALSE(find_non_finite(numbers.data(), type, 4095));
}

TEST(Finite, FindsTheFirst) {
  expect_found<double>(DType::float64, [](double x) { return x; });
  expect_found<float>(DType::float32, [](double x) { return float(x); });
  expect_found<core::Half>(DType::float16, [](double x) { return core::to_half(float(x)); });
  expect_found<core::BFloat16>(DType::bfloat16, [](double x) { return core::to_bfloat16(float(x)); });
}

}  // namespace
}  // namespace annulus::store
