// Row-major matrices in memory of the default execution space, and element-wise operations on them.
#pragma once

#include "annulus/core/buffer.hpp"
#include "annulus/core/types.hpp"

namespace annulus::layer {

using core::Index;

/// A view of a matrix: element (row, column) is at data[row * stride + column], counted in numbers of `type`.
struct Matrix {
  void* data = nullptr;
  core::DType type = core::DType::float32;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;

  bool empty() const { return rows == 0 || columns == 0; }
  /// A view of the rows, or columns, [interval.begin, interval.end) of this matrix.
  Matrix take_rows(core::Interval interval) const { return part(interval, {0, columns}); }
  Matrix take_columns(core::Interval interval) const { return part({0, rows}, interval); }

 private:
  Matrix part(core::Interval row, core::Interval column) const {
    const Index offset = (row.begin * stride + column.begin) * Index(core::bytes_of(type));
    return {static_cast<std::byte*>(data) + offset, type, row.size(), column.size(), stride};
  }
};

/// A view of a contiguous matrix.
inline Matrix matrix_at(void* data, core::DType type, Index rows, Index columns) {
  return {data, type, rows, columns, columns};
}

/// Makes a new contiguous matrix; `owner` owns its memory.
inline Matrix make_matrix(core::Buffer& owner, const char* purpose, core::DType type, Index rows, Index columns) {
  owner = core::Buffer(purpose, rows * columns * Index(core::bytes_of(type)));
  return matrix_at(owner.data(), type, rows, columns);
}

// The following functions return when their work is done. The matrices of one call must not overlap, and all but `row`
// must have equal shapes.

/// to = from, rounded to the type of `to`.
void copy(const Matrix& from, const Matrix& to);
/// Returns a buffer with the numbers of a contiguous matrix in `type`. This is `owner`, the buffer of the matrix, or a
/// new buffer if the matrix has another type.
core::Buffer stored(const Matrix& matrix, const core::Buffer& owner, core::DType type, const char* purpose);
/// to = value, for every element.
void fill(const Matrix& to, double value);
/// Copies `row`, a matrix of one row, to every row of `to`.
void fill_rows(const Matrix& row, const Matrix& to);
/// to += from.
void add(const Matrix& from, const Matrix& to);
/// to -= rate * from.
void subtract_scaled(double rate, const Matrix& from, const Matrix& to);
/// Returns the sum of (y - target)^2. Adds up in float64: each row from left to right, then the sums of the rows in
/// their order. Replaces y by scale * (y - target). Both matrices must be contiguous.
double squared_distance(const Matrix& y, const Matrix& target, double scale);

}  // namespace annulus::layer
