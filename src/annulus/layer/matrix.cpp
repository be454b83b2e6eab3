#include "annulus/layer/matrix.hpp"

#include <vector>

#include "annulus/layer/elements.hpp"

namespace annulus::layer {
namespace {

/// Computes to = keep * to + factor * from, for copy(), fill_rows(), add() and subtract_scaled(). If `from_stride` is
/// 0, `from` is one row, and this row is used for every row of `to`.
template <class From, class To>
struct Combine {
  const From* from;
  Index from_stride;
  To* to;
  Index to_stride;
  double keep;
  double factor;

  KOKKOS_FUNCTION void operator()(const Index row, const Index column) const {
    To& target = to[row * to_stride + column];
    const double source = factor * core::load_as<double>(from[row * from_stride + column]);
    core::store_as(target, keep == 0 ? source : keep * core::load_as<double>(target) + source);
  }
};

void combine(const char* label, double keep, const Matrix& to, double factor, const Matrix& from, Index from_stride) {
  with_type(from.type, [&](auto from_number) {
    with_type(to.type, [&](auto to_number) {
      using From = decltype(from_number);
      using To = decltype(to_number);
      for_each_element(label, to.rows, to.columns,
                       Combine<From, To>{static_cast<const From*>(from.data), from_stride, static_cast<To*>(to.data),
                                         to.stride, keep, factor});
    });
  });
}

/// In each row, replaces y by scale * (y - target), and writes the row's sum of (y - target)^2 to sums[row].
template <class Number>
struct Distance {
  Number* y;
  const Number* target;
  Index columns;
  double scale;
  double* sums;

  KOKKOS_FUNCTION void operator()(const Index row) const {
    double sum = 0;
    for (Index i = row * columns; i < (row + 1) * columns; ++i) {
      const double difference = core::load_as<double>(y[i]) - core::load_as<double>(target[i]);
      sum += difference * difference;
      core::store_as(y[i], scale * difference);
    }
    sums[row] = sum;
  }
};

}  // namespace

void copy(const Matrix& from, const Matrix& to) { combine("annulus::copy", 0, to, 1, from, from.stride); }

core::Buffer stored(const Matrix& matrix, const core::Buffer& owner, core::DType type, const char* purpose) {
  if (matrix.type == type) return owner;
  core::Buffer buffer;
  copy(matrix, make_matrix(buffer, purpose, type, matrix.rows, matrix.columns));
  return buffer;
}

void fill(const Matrix& to, double value) {
  const core::Buffer number("constant", Index(sizeof value) * to.columns);
  const std::vector<double> row(std::size_t(to.columns), value);
  core::copy_to_device(number.data(), row.data(), number.bytes());
  fill_rows(matrix_at(number.data(), core::DType::float64, 1, to.columns), to);
}

void fill_rows(const Matrix& row, const Matrix& to) { combine("annulus::fill_rows", 0, to, 1, row, 0); }
void add(const Matrix& from, const Matrix& to) { combine("annulus::add", 1, to, 1, from, from.stride); }
void subtract_scaled(double rate, const Matrix& from, const Matrix& to) {
  combine("annulus::subtract_scaled", 1, to, -rate, from, from.stride);
}

double squared_distance(const Matrix& y, const Matrix& target, double scale) {
  const core::Buffer sums("row sums", y.rows * Index(sizeof(double)));
  with_type(y.type, [&](auto number) {
    using Number = decltype(number);
    const Distance<Number> body{static_cast<Number*>(y.data), static_cast<const Number*>(target.data), y.columns, scale,
                                static_cast<double*>(sums.data())};
    Kokkos::parallel_for("annulus::squared_distance", Kokkos::RangePolicy<>(0, y.rows), body);
    Kokkos::DefaultExecutionSpace().fence();
  });
  std::vector<double> rows(static_cast<std::size_t>(y.rows));
  core::copy_to_host(rows.data(), sums.data(), sums.bytes());
  double sum = 0;
  for (const double row : rows) sum += row;
  return sum;
}

}  // namespace annulus::layer
