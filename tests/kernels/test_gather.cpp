// Rows that are collected for a message, moved out of a block, or added to rows of another block.
#include "annulus/kernels/gather.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "annulus/core/error.hpp"
#include "annulus/kernels/turns.hpp"
#include "support/attention_case.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using core::Precision;

constexpr Index parts = 2, width = 3;

/// A (parts, held, width) array of float or double.
struct Rows {
  Rows(Index held, Precision precision, double first)
      : type(precision == Precision::float64 ? core::DType::float64 : core::DType::float32), held(held) {
    std::vector<double> values(std::size_t(parts * held * width));
    for (double& value : values) value = first++;
    const auto bytes = test::to_storage(values, type);
    memory = core::Buffer("test rows", Index(bytes.size()));
    core::copy_to_device(memory.data(), bytes.data(), memory.bytes());
  }
  RowArray array() const { return {memory.data(), parts, held, width * Index(core::bytes_of(type))}; }
  /// First number of every row, part after part; the others must follow it in steps of 1.
  std::vector<double> rows() const {
    const auto all = test::from_device(memory, parts * held * width, type);
    std::vector<double> first;
    for (std::size_t i = 0; i < all.size(); i += width) {
      for (std::size_t c = 0; c < std::size_t(width); ++c) EXPECT_EQ(all[i + c], all[i] + double(c));
      first.push_back(all[i]);
    }
    return first;
  }
  core::DType type;
  Index held;
  core::Buffer memory;
};

// Rows 1 3 5, then 3 4: row 3 belongs to both.
const std::vector<RowCopy> copies{{1, 2, 3, 0}, {3, 1, 2, 3}};

class Gather : public testing::TestWithParam<Precision> {};

TEST_P(Gather, CollectsRows) {
  const Rows source(6, GetParam(), 0), target(5, GetParam(), 100);
  gather_rows(copies, source.array(), target.array());
  EXPECT_EQ(target.rows(), (std::vector<double>{3, 9, 15, 9, 12, 21, 27, 33, 27, 30}));
  EXPECT_EQ(source.rows(), Rows(6, GetParam(), 0).rows());
}

TEST_P(Gather, AMovedRowIsMovedOnce) {
  const Rows source(6, GetParam(), 0), target(5, GetParam(), 100);
  move_rows(copies, source.array(), target.array());
  const auto all = test::from_device(target.memory, parts * 5 * width, target.type);
  EXPECT_EQ(all[0], 3);
  EXPECT_EQ(all[3], 9) << "row 3, by the first copy";
  EXPECT_EQ(all[9], 0) << "row 3 again: gone";
  EXPECT_EQ(all[12], 12);
  const auto left = test::from_device(source.memory, parts * 6 * width, source.type);
  for (Index part = 0; part < parts; ++part) {
    for (Index row = 0; row < 6; ++row) {
      const Index i = (part * 6 + row) * width;
      const bool taken = row == 1 || row == 3 || row == 4 || row == 5;
      EXPECT_EQ(left[std::size_t(i)], taken ? 0 : double(i)) << "part " << part << " row " << row;
    }
  }
}

TEST_P(Gather, AddsEveryCopyOfARow) {
  const Rows collected(5, GetParam(), 1000), target(6, GetParam(), 0);
  add_rows(copies, collected.array(), target.array(), GetParam());
  // Row 3 of part 0: 9 + 1003 (second row collected) + 1009 (fourth).
  const auto sums = test::from_device(target.memory, parts * 6 * width, target.type);
  std::vector<double> first;
  for (std::size_t i = 0; i < sums.size(); i += width) first.push_back(sums[i]);
  EXPECT_EQ(first, (std::vector<double>{0, 1003, 6, 9 + 1003 + 1009, 12 + 1012, 15 + 1006,  //
                                        18, 21 + 1015, 24, 27 + 1018 + 1024, 30 + 1027, 33 + 1021}));
}

TEST_P(Gather, CollectedRowsMayLieApartToo) {
  const Rows collected(6, GetParam(), 1000), target(4, GetParam(), 0);
  add_rows({{0, 2, 2, 1, 3}}, collected.array(), target.array(), GetParam());  // rows 1 4 to rows 0 2
  const auto sums = test::from_device(target.memory, parts * 4 * width, target.type);
  EXPECT_EQ(sums[0], 1003);
  EXPECT_EQ(sums[2 * width], 6 + 1012);
  EXPECT_EQ(sums[width], 3);
  EXPECT_EQ(sums[4 * width], 12 + 1021);
}

TEST_P(Gather, CopiesOfTheSameRowAddInTheOrderOfTheList) {
  // In floating point big + 1 - big is 0 and big - big + 1 is 1.
  const double big = GetParam() == Precision::float64 ? 0x1p60 : 0x1p30;
  const auto type = GetParam() == Precision::float64 ? core::DType::float64 : core::DType::float32;
  const auto bytes = test::to_storage({big, 1, -big}, type);
  const core::Buffer list("test rows", Index(bytes.size())), sum("test rows", Index(bytes.size()) / 3);
  core::copy_to_device(list.data(), bytes.data(), list.bytes());
  const auto sum_of = [&](const std::vector<RowCopy>& order) {
    core::fill_zero(sum.data(), sum.bytes());
    add_rows(order, {list.data(), 1, 3, sum.bytes()}, {sum.data(), 1, 1, sum.bytes()}, GetParam());
    return test::from_device(sum, 1, type)[0];
  };
  EXPECT_EQ(sum_of({{0, 1, 1, 0}, {0, 1, 1, 1}, {0, 1, 1, 2}}), 0);
  EXPECT_EQ(sum_of({{0, 1, 1, 0}, {0, 1, 1, 2}, {0, 1, 1, 1}}), 1);
}

TEST_P(Gather, OfCopiesIntoOneRowTheLastStands) {
  const Rows source(6, GetParam(), 0), target(1, GetParam(), 100);
  gather_rows({{1, 1, 1, 0}, {4, 1, 1, 0}, {2, 1, 1, 0}}, source.array(), target.array());
  EXPECT_EQ(target.rows(), (std::vector<double>{6, 24}));
}

// Hundreds of copies, as for a message of many segments; some copies have no rows.
TEST(GatherMany, CopiesOfAnyLengthFindTheirRows) {
  constexpr Index held = 4000, most_bytes = 32;
  std::vector<double> values(held * most_bytes / 8);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i);
  const core::Buffer source("test rows", held * most_bytes), target("test rows", held * most_bytes);
  core::copy_to_device(source.data(), values.data(), source.bytes());
  for (const Index row_bytes : {32, 16, 8}) {  // rows of 8 bytes cannot be moved 16 bytes at a time
    core::fill_zero(target.data(), target.bytes());
    std::vector<RowCopy> many;
    std::vector<std::pair<Index, Index>> expected;  // {from, to}
    Index to = 0;
    for (Index i = 0; i < 300; ++i) {
      const Index count = i % 5, stride = 1 + i % 3, from = 13 * i;
      many.push_back({from, stride, count, to});
      for (Index row = 0; row < count; ++row) expected.emplace_back(from + row * stride, to + row);
      to += count;
    }
    gather_rows(many, {source.data(), 1, held, row_bytes}, {target.data(), 1, to, row_bytes});
    const auto found = test::from_device(target, to * row_bytes / 8, core::DType::float64);
    for (const auto& [from, at] : expected) {
      for (Index c = 0; c < row_bytes / 8; ++c) {
        EXPECT_EQ(found[std::size_t(at * row_bytes / 8 + c)], values[std::size_t(from * row_bytes / 8 + c)])
            << "row " << at << " of " << row_bytes << " bytes";
      }
    }
  }
}

TEST(Turns, RowsInCommonAreFoundAsByLookingAtAll) {
  const auto rows_of = [](const StridedRows& rows) {
    std::vector<Index> all;
    for (Index i = 0; i < rows.count; ++i) all.push_back(rows.first + i * rows.stride);
    return all;
  };
  std::vector<StridedRows> some;
  for (Index first = 0; first < 9; ++first) {
    for (const Index stride : {1, 2, 3, 4, 6}) {
      for (const Index count : {0, 1, 2, 5}) some.push_back({first, stride, count});
    }
  }
  Index met = 0;
  for (const StridedRows& a : some) {
    for (const StridedRows& b : some) {
      const auto left = rows_of(a), right = rows_of(b);
      const bool expected = std::find_first_of(left.begin(), left.end(), right.begin(), right.end()) != left.end();
      met += expected;
      EXPECT_EQ(have_common_row(a, b), expected)
          << a.first << " " << a.stride << " " << a.count << " and " << b.first << " " << b.stride << " " << b.count;
    }
  }
  EXPECT_GT(met, 1000);
}

TEST(Turns, OnlyCopiesOfTheSameRowWait) {
  EXPECT_EQ(turns_of(3, {{{1, 2, 3}, {3, 1, 2}, {0, 2, 2}}}), (std::vector<int>{0, 1, 0}));
  std::vector<StridedRows> combs;  // combs at all offsets of a dilation share no row
  for (Index offset = 0; offset < 8; ++offset) combs.push_back({offset, 8, 100});
  EXPECT_EQ(turns_of(8, {combs}), std::vector<int>(8, 0));
  // Two arrays: copies 0 and 1 have rows in common in the first array, copies 1 and 2 in the second.
  EXPECT_EQ(turns_of(3, {{{0, 1, 2}, {1, 1, 2}, {9, 1, 1}}, {{0, 1, 1}, {5, 1, 3}, {6, 1, 1}}}),
            (std::vector<int>{0, 1, 2}));
}

TEST_P(Gather, RefusesArraysOfDifferentShape) {
  const Rows some(6, GetParam(), 0);
  RowArray longer = some.array();
  longer.row_bytes *= 2;
  EXPECT_THROW(gather_rows(copies, some.array(), longer), core::Error);
  EXPECT_THROW(add_rows(copies, longer, some.array(), GetParam()), core::Error);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Gather, testing::Values(Precision::float64, Precision::float32),
                         [](const auto& info) { return std::string(core::name_of(info.param)); });

}  // namespace
}  // namespace annulus::kernels
