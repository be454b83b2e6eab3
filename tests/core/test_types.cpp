#include "annulus/core/types.hpp"

#include <gtest/gtest.h>

#include "annulus/core/tensor_view.hpp"

namespace annulus::core {
namespace {

TEST(Interval, SizeAndEmptiness) {
  EXPECT_EQ((Interval{3, 10}.size()), 7);
  EXPECT_FALSE((Interval{3, 4}.empty()));
  EXPECT_TRUE((Interval{3, 3}.empty()));
  EXPECT_TRUE((Interval{5, 3}.empty()));
  EXPECT_EQ((Interval{5, 3}.size()), 0);
}

// Compares with membership, row by row, for every two intervals within 0 ... 7.
TEST(Interval, IntersectionHoldsExactlyTheCommonRows) {
  const auto holds = [](Interval i, Index row) { return i.begin <= row && row < i.end; };
  for (Index a = 0; a < 7; ++a) {
    for (Index b = a; b <= 7; ++b) {
      for (Index c = 0; c < 7; ++c) {
        for (Index d = c; d <= 7; ++d) {
          const Interval both = intersect({a, b}, {c, d});
          Index rows = 0;
          for (Index row = 0; row < 7; ++row) {
            const bool common = holds({a, b}, row) && holds({c, d}, row);
            EXPECT_EQ(holds(both, row), common);
            rows += common;
          }
          EXPECT_EQ(both.size(), rows);
          EXPECT_LE(both.begin, both.end);
        }
      }
    }
  }
}

TEST(Types, RanksAreCountedRoundTheRing) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int rounds = -3; rounds <= 3; ++rounds) EXPECT_EQ(wrap(rank + rounds * ranks, ranks), rank);
    }
  }
  EXPECT_EQ(wrap(Index(-1), Index(1) << 40), (Index(1) << 40) - 1);
}

TEST(Types, SizesAndNames) {
  EXPECT_EQ(bytes_of(DType::float64), 8u);
  EXPECT_EQ(bytes_of(DType::float32), 4u);
  EXPECT_EQ(bytes_of(DType::float16), 2u);
  EXPECT_EQ(bytes_of(DType::bfloat16), 2u);
  EXPECT_EQ(bytes_of(Precision::float64), 8u);
  EXPECT_EQ(bytes_of(Precision::float32), 4u);
  EXPECT_EQ(bytes_of(Precision::bfloat16), 4u) << "of sums";
  EXPECT_EQ(type_of(Precision::bfloat16), DType::float32);
  EXPECT_EQ(name_of(DType::float64), "float64");
  EXPECT_EQ(name_of(DType::float32), "float32");
  EXPECT_EQ(name_of(DType::float16), "float16");
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(Precision::float64), "float64");
  EXPECT_EQ(name_of(Precision::float32), "float32");
  EXPECT_EQ(name_of(Precision::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(Precision::tf32), "tf32");
  EXPECT_EQ(name_of(Precision::three_tf32), "3xtf32");
  EXPECT_EQ(name_of(Precision::three_bfloat16), "3xbfloat16");
  EXPECT_EQ(name_of(Precision::six_bfloat16), "6xbfloat16");
}

TEST(Types, ProductsOfSumsOfBfloat16) {
  for (const Precision precision : all_precisions) {
    const bool split = precision == Precision::three_bfloat16 || precision == Precision::six_bfloat16;
    EXPECT_EQ(is_split(precision), split) << name_of(precision);
    if (!split) continue;
    EXPECT_EQ(bytes_of(precision), 4u) << "of sums";
    EXPECT_EQ(type_of(precision), DType::float32);
    EXPECT_TRUE(has_own_products(precision));
    EXPECT_TRUE(why_no_fixed_order(precision).empty());
    EXPECT_TRUE(takes(precision, DType::float32));
    EXPECT_FALSE(takes(precision, DType::float64));
    EXPECT_FALSE(takes(precision, DType::bfloat16));
  }
  EXPECT_TRUE(takes(Precision::three_bfloat16, DType::float16));
  EXPECT_FALSE(takes(Precision::six_bfloat16, DType::float16));
  EXPECT_EQ(stored_for_products(Precision::three_bfloat16), "float32 or float16");
  EXPECT_EQ(stored_for_products(Precision::six_bfloat16), "float32");
  EXPECT_EQ(stored_for_products(Precision::bfloat16), "bfloat16");
  EXPECT_EQ(stored_for_products(Precision::three_tf32), "float32");
}

TEST(Types, ProductsOfTf32) {
  for (const Precision precision : {Precision::tf32, Precision::three_tf32}) {
    EXPECT_EQ(bytes_of(precision), 4u) << "of sums";
    EXPECT_EQ(type_of(precision), DType::float32);
    EXPECT_TRUE(has_own_products(precision));
    EXPECT_FALSE(why_no_fixed_order(precision).empty());
    for (const DType type : all_dtypes) EXPECT_EQ(takes(precision, type), type == DType::float32) << name_of(type);
  }
  for (const Precision precision : {Precision::float32, Precision::float64, Precision::bfloat16}) {
    EXPECT_EQ(has_own_products(precision), precision == Precision::bfloat16);
    EXPECT_TRUE(why_no_fixed_order(precision).empty());
  }
}

TEST(Types, OnlyFloat64InputGivesFloat64LseAndSums) {
  EXPECT_EQ(lse_type(DType::float64), DType::float64);
  EXPECT_EQ(default_precision(DType::float64), Precision::float64);
  EXPECT_EQ(default_precision(DType::bfloat16, true), Precision::bfloat16);
  for (const DType type : {DType::float64, DType::float32, DType::float16}) {
    EXPECT_EQ(default_precision(type, true), default_precision(type)) << name_of(type);
    EXPECT_FALSE(takes(Precision::bfloat16, type)) << name_of(type);
    EXPECT_TRUE(takes(Precision::float32, type)) << name_of(type);
  }
  EXPECT_TRUE(takes(Precision::bfloat16, DType::bfloat16));
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16}) {
    EXPECT_EQ(lse_type(type), DType::float32);
    EXPECT_EQ(default_precision(type), Precision::float32);
  }
}

TEST(Types, CeilDiv) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
}

TEST(Types, EvenParts) {
  EXPECT_EQ(even_part(7, 3, 0), (Interval{0, 3}));
  EXPECT_EQ(even_part(7, 3, 1), (Interval{3, 5}));
  EXPECT_EQ(even_part(7, 3, 2), (Interval{5, 7}));
  EXPECT_EQ(even_part(2, 4, 1), (Interval{1, 2}));
  EXPECT_EQ(even_part(2, 4, 3), (Interval{2, 2}));
}

TEST(Types, GroupedHeads) { EXPECT_EQ((Shape{1, 8, 12, 4, 32}.group()), 3); }

TEST(TensorView, ContiguousStrides) {
  float data = 0;
  const TensorView view = contiguous_view(&data, DType::float32, 5, 3, 2);  // (B, 5, 3, 2)
  EXPECT_EQ(view.data, &data);
  EXPECT_EQ(view.head_stride, 2);
  EXPECT_EQ(view.row_stride, 6);
  EXPECT_EQ(view.batch_stride, 30);
}

}  // namespace
}  // namespace annulus::core
