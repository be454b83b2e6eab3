// Products and rope against plain loops, in every storage type and over more rows than a chunk has.
#include "annulus/layer/products.hpp"

#include "annulus/core/error.hpp"
#include "annulus/layer/rope.hpp"
#include "reference_layer.hpp"
#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::layer {
namespace {

using core::DType;
using test::Numbers;

constexpr Index rows = 4999, inner = 7, outer = 5;  // two whole chunks of 2,048 rows and a part of one

/// A matrix inside a wider one: columns [2, 2 + columns) of rows of columns + 5 numbers; the rest is NaN.
struct Slice {
  core::Buffer buffer;
  Matrix matrix;

  Slice(const Numbers& values, DType type, Index columns) {
    const Index count = Index(values.size()) / columns, stride = columns + 5;
    Numbers wide(std::size_t(count * stride), std::nan(""));
    for (Index i = 0; i < Index(values.size()); ++i) {
      wide[std::size_t(i / columns * stride + 2 + i % columns)] = values[std::size_t(i)];
    }
    const auto bytes = test::to_storage(wide, type);
    const Matrix whole = make_matrix(buffer, "test matrix", type, count, stride);
    core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
    matrix = whole.take_columns({2, 2 + columns});
  }

  /// The matrix' numbers. The test fails if a number outside the matrix has changed.
  Numbers numbers() const {
    const Numbers wide = test::from_device(buffer, matrix.rows * matrix.stride, matrix.type);
    Numbers inside;
    for (Index i = 0; i < Index(wide.size()); ++i) {
      const Index column = i % matrix.stride - 2;
      if (column >= 0 && column < matrix.columns) {
        inside.push_back(wide[std::size_t(i)]);
      } else {
        EXPECT_TRUE(std::isnan(wide[std::size_t(i)])) << "number " << i << " beside the matrix";
      }
    }
    return inside;
  }
};

struct ProductsOfType : testing::TestWithParam<std::pair<DType, DType>> {
  const DType type = GetParam().first;
  const DType sums = GetParam().second;
  const double tolerance = core::forward_tolerance(type);
  int polls = 0;
  Products products{sums, [this] { ++polls; }};

  const Numbers x = test::random_values(core::TensorId::q, rows* inner, type, 1, 0.3);
  const Numbers w = test::random_values(core::TensorId::k, inner* outer, type, 2, 0.3);
  const Numbers bias = test::random_values(core::TensorId::v, outer, type, 3);
  const Numbers dy = test::random_values(core::TensorId::dout, rows* outer, type, 4, 0.3);
};

TEST_P(ProductsOfType, ForwardAddsTheBiasToEveryRow) {
  Numbers expected = test::product(x, w, rows, inner, outer);
  const Slice in(x, type, inner), weight(w, type, outer), row(bias, type, outer);
  const Slice y(Numbers(expected.size(), 9.0), type, outer);
  products.forward(in.matrix, weight.matrix, {}, y.matrix);
  EXPECT_TRUE(test::close_to(y.numbers(), expected, tolerance)) << "without a bias";
  EXPECT_EQ(polls, 3);
  EXPECT_EQ(products.metrics().flops, 2.0 * rows * inner * outer);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % outer];
  products.forward(in.matrix, weight.matrix, row.matrix, y.matrix);
  EXPECT_TRUE(test::close_to(y.numbers(), expected, tolerance)) << "with a bias";
}

TEST_P(ProductsOfType, InputGradientReplacesOrAdds) {
  const Slice out(dy, type, outer), weight(w, type, outer);
  Numbers expected = test::product(dy, test::transposed(w, inner, outer), rows, outer, inner);
  const Slice stored(Numbers(expected.size(), std::nan("")), type, inner);
  products.input_gradient(out.matrix, weight.matrix, stored.matrix, false);
  EXPECT_TRUE(test::close_to(stored.numbers(), expected, tolerance));
  const Slice dx(Numbers(expected.size(), 1.0), sums, inner);
  products.input_gradient(out.matrix, weight.matrix, dx.matrix, true);
  for (double& value : expected) value += 1;
  EXPECT_TRUE(test::close_to(dx.numbers(), expected, tolerance));
}

TEST_P(ProductsOfType, WeightAndBiasGradientsSumOverRows) {
  const Slice in(x, type, inner), out(dy, type, outer);
  const Slice dw(Numbers(inner * outer, 9.0), sums, outer), db(Numbers(outer, 9.0), sums, outer);
  products.weight_gradient(in.matrix, out.matrix, dw.matrix);
  products.bias_gradient(out.matrix, db.matrix);
  EXPECT_TRUE(test::close_to(dw.numbers(), test::product(test::transposed(x, rows, inner), dy, inner, rows, outer),
                             core::gradient_tolerance(type)));
  EXPECT_TRUE(test::close_to(db.numbers(), test::product(Numbers(rows, 1.0), dy, 1, rows, outer),
                             core::gradient_tolerance(type)));
  products.weight_gradient(in.matrix.take_rows({0, 0}), out.matrix.take_rows({0, 0}), dw.matrix);
  products.bias_gradient(out.matrix.take_rows({0, 0}), db.matrix);
  EXPECT_EQ(dw.numbers(), Numbers(inner * outer, 0.0)) << "a rank without rows adds nothing";
  EXPECT_EQ(db.numbers(), Numbers(outer, 0.0));
}

INSTANTIATE_TEST_SUITE_P(Every, ProductsOfType,
                         testing::Values(std::pair{DType::float64, DType::float64},
                                         std::pair{DType::float32, DType::float32},
                                         std::pair{DType::float32, DType::float64},
                                         std::pair{DType::float16, DType::float32},
                                         std::pair{DType::bfloat16, DType::float32}));

TEST(Gemm, RefusesMatricesThatDoNotFit) {
  const Slice a(Numbers(6, 1.0), DType::float64, 3), b(Numbers(8, 1.0), DType::float64, 4);
  const Slice c(Numbers(8, 1.0), DType::float64, 4);
  EXPECT_THROW(gemm(Transposed::no, Transposed::no, a.matrix, b.matrix, false, c.matrix), core::Error);
}

TEST(Gemm, OfNothingIsZero) {
  const Slice a(Numbers(6, 1.0), DType::float64, 3), b(Numbers(8, 1.0), DType::float64, 4);
  const Slice c(Numbers(12, 5.0), DType::float64, 4);
  const Matrix no_rows_a = a.matrix.take_rows({0, 0}), no_rows_b = b.matrix.take_rows({0, 0});
  gemm(Transposed::yes, Transposed::no, no_rows_a, no_rows_b, true, c.matrix);
  EXPECT_EQ(c.numbers(), Numbers(12, 5.0));
  gemm(Transposed::yes, Transposed::no, no_rows_a, no_rows_b, false, c.matrix);
  EXPECT_EQ(c.numbers(), Numbers(12, 0.0));
}

/// Rotates a zigzag rank's rows, and compares them with the same rows of the whole sequence, rotated.
void check_rope(DType type, double base) {
  const core::Shape shape{2, 40, 3, 3, 6};
  const Numbers whole = test::random_values(core::TensorId::q, 2 * 40 * 3 * 6, type, 7);
  const Numbers expected = test::turned(whole, shape, 3, base, 1);
  const pattern::Partition partition = pattern::zigzag_partition({0, 11, 40}, 3);
  for (const pattern::StoredRows& own : partition) {
    const Numbers before = test::take_rows(whole, 2, 40, own.intervals());
    const test::DeviceTensor tensor = test::to_device(before, type, own.count(), 3, 6);
    const auto now = [&] { return test::from_device(tensor.buffer, Index(before.size()), type); };
    rope(tensor.view, 2, own, 3, 6, base, Direction::forward);
    EXPECT_TRUE(
        test::close_to(now(), test::take_rows(expected, 2, 40, own.intervals()), core::forward_tolerance(type)));
    rope(tensor.view, 2, own, 3, 6, base, Direction::back);
    EXPECT_TRUE(test::close_to(now(), before, core::forward_tolerance(type)));
  }
}

TEST(Rope, TurnsByTheRowsPlaceInTheSequence) {
  for (const double base : {10.0, 10000.0}) {
    check_rope(DType::float64, base);
    check_rope(DType::float32, base);
    check_rope(DType::bfloat16, base);
  }
}

TEST(Rope, WorkedExample) {
  const test::DeviceTensor tensor = test::to_device({1, 0}, DType::float64, 1, 1, 2);
  rope(tensor.view, 1, pattern::StoredRows({{3, 4}}), 1, 2, 10000, Direction::forward);
  EXPECT_TRUE(test::close_to(test::from_device(tensor.buffer, 2, DType::float64), Numbers{std::cos(3.0), std::sin(3.0)},
                             1e-15));
}

}  // namespace
}  // namespace annulus::layer
