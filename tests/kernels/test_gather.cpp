// Rows collected for a message, moved out of a block, and added where they belong.
#include "annulus/kernels/gather.hpp"

#include <gtest/gtest.h>

#include "annulus/core/error.hpp"
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
  /// First number of every row, part after part; the others must follow it in steps of `step`.
  std::vector<double> rows(double step = 1) const {
    const auto all = test::from_device(memory, parts * held * width, type);
    std::vector<double> first;
    for (std::size_t i = 0; i < all.size(); i += width) {
      for (std::size_t c = 0; c < std::size_t(width); ++c) EXPECT_EQ(all[i + c], all[i] + step * double(c));
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
