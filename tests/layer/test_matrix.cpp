// Operations that go through matrices number by number: long rows, gaps, and changes of type.
#include "annulus/layer/matrix.hpp"

#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::layer {
namespace {

using core::DType;
using Numbers = std::vector<double>;

struct Filled {
  core::Buffer buffer;
  Matrix matrix;

  Filled(const Numbers& values, DType type, Index rows) {
    matrix = make_matrix(buffer, "test matrix", type, rows, Index(values.size()) / rows);
    const auto bytes = test::to_storage(values, type);
    core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
  }
  Numbers numbers() const { return test::from_device(buffer, matrix.rows * matrix.columns, matrix.type); }
};

/// Whole numbers that every type represents.
Numbers counting(Index count) {
  Numbers values;
  for (Index i = 0; i < count; ++i) values.push_back(double(i % 200) - 100);
  return values;
}

TEST(Matrix, OperationsReachEveryNumber) {
  constexpr Index rows = 3, columns = 10001;  // rows longer than what one team takes
  const Numbers values = counting(rows * columns);
  for (const DType from : core::all_dtypes) {
    for (const DType to : core::all_dtypes) {
      const Filled source(values, from, rows);
      const Filled target(Numbers(values.size(), std::nan("")), to, rows);
      copy(source.matrix, target.matrix);
      EXPECT_EQ(target.numbers(), values);
      subtract_scaled(-1, source.matrix, target.matrix);
      Numbers expected = values;
      for (double& value : expected) value *= 2;
      EXPECT_EQ(target.numbers(), expected);
      fill(target.matrix, 2);
      add(source.matrix, target.matrix);
      for (std::size_t i = 0; i < values.size(); ++i) expected[i] = values[i] + 2;
      EXPECT_EQ(target.numbers(), expected);
      fill_rows(source.matrix.take_rows({1, 2}), target.matrix);
      for (std::size_t i = 0; i < values.size(); ++i) expected[i] = values[std::size_t(columns) + i % columns];
      EXPECT_EQ(target.numbers(), expected);
    }
  }
}

TEST(Matrix, PartsLeaveTheRestAlone) {
  const Filled target(Numbers(20, 7.0), DType::float32, 4), ones(Numbers(4, 1.0), DType::float32, 2);
  copy(ones.matrix, target.matrix.take_rows({1, 3}).take_columns({2, 4}));
  Numbers expected(20, 7.0);
  for (const std::size_t i : {7, 8, 12, 13}) expected[i] = 1;
  EXPECT_EQ(target.numbers(), expected);
}

TEST(Matrix, IsStoredAsItIsOrInANewBuffer) {
  const Filled source(counting(12), DType::float32, 3);
  EXPECT_EQ(stored(source.matrix, source.buffer, DType::float32, "test").data(), source.buffer.data());
  const core::Buffer other = stored(source.matrix, source.buffer, DType::bfloat16, "test");
  EXPECT_EQ(test::from_device(other, 12, DType::bfloat16), counting(12));
}

}  // namespace
}  // namespace annulus::layer
