#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/tolerance.hpp"

namespace annulus::core {
namespace {

using test::close_to;
using test::error_of;
using Numbers = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Tolerance, TheTable) {
  EXPECT_EQ(forward_tolerance(DType::float64), 1e-12);
  EXPECT_EQ(forward_tolerance(DType::float32), 1e-5);
  EXPECT_EQ(forward_tolerance(DType::float16), 3e-3);
  EXPECT_EQ(forward_tolerance(DType::bfloat16), 2e-2);
  EXPECT_EQ(gradient_tolerance(DType::float64), 1e-11);
  EXPECT_EQ(gradient_tolerance(DType::float32), 3e-5);
  EXPECT_EQ(gradient_tolerance(DType::float16), 3e-3);
  EXPECT_EQ(gradient_tolerance(DType::bfloat16), 2e-2);
}

TEST(Tolerance, ProductsOfTf32HaveFloat16sMantissa) {
  EXPECT_EQ(rounding_of(Precision::tf32), DType::float16);
  EXPECT_EQ(rounding_of(Precision::three_tf32), DType::float32);
  EXPECT_EQ(rounding_of(Precision::bfloat16), DType::bfloat16);
  EXPECT_EQ(rounding_of(Precision::float64), DType::float64);
  EXPECT_EQ(rounding_of(Precision::six_bfloat16), DType::float32);
}

TEST(Tolerance, OfAPrecisionIsThatOfItsTypeExceptFor3xbfloat16) {
  for (const Precision precision : all_precisions) {
    const bool own = precision == Precision::three_bfloat16;
    EXPECT_EQ(forward_tolerance(precision), own ? 1e-4 : forward_tolerance(rounding_of(precision)))
        << name_of(precision);
    EXPECT_EQ(gradient_tolerance(precision), own ? 3e-4 : gradient_tolerance(rounding_of(precision)))
        << name_of(precision);
  }
  EXPECT_EQ(forward_tolerance(Precision::six_bfloat16), 1e-5);
  EXPECT_EQ(gradient_tolerance(Precision::six_bfloat16), 3e-5);
  EXPECT_EQ(forward_tolerance(Precision::tf32), 3e-3);
}

TEST(Tolerance, ErrorIsRelativeToTheLargestReferenceOnceThatExceedsOne) {
  EXPECT_EQ(error_of(Numbers{0.25, 0.5}, Numbers{0.25, 0.25}), 0.25);
  EXPECT_EQ(error_of(Numbers{-7, 1}, Numbers{-8, 1}), 0.125);
  EXPECT_EQ(error_of(Numbers{}, Numbers{}), 0);
}

TEST(Tolerance, InfinitiesMustAgree) {
  EXPECT_EQ(error_of(Numbers{-infinity, 2}, Numbers{-infinity, 2}), 0);
  EXPECT_EQ(error_of(Numbers{-infinity}, Numbers{infinity}), infinity);
  EXPECT_EQ(error_of(Numbers{-infinity}, Numbers{-1e300}), infinity);
  EXPECT_EQ(error_of(Numbers{-1e300}, Numbers{-infinity}), infinity);
  EXPECT_EQ(error_of(Numbers{std::nan("")}, Numbers{0}), infinity);
  EXPECT_EQ(error_of(Numbers{0}, Numbers{std::nan("")}), infinity);
}

TEST(Tolerance, CloseToNamesTheWorstNumber) {
  EXPECT_TRUE(close_to(Numbers{1, 2}, Numbers{1, 2 + 1e-9}, 1e-9));
  const testing::AssertionResult result = close_to(Numbers{1, 2.5, 3.25}, Numbers{1, 2, 3}, 0.1);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("number 1 of 3 is 2.5 instead of 2"), std::string::npos)
      << result.message();
  EXPECT_FALSE(close_to(Numbers{1}, Numbers{1, 2}, 1));
}

}  // namespace
}  // namespace annulus::core
