// Row-major matrices in the memory of the default execution space, and what is done to them number by number.
#pragma once

#include "annulus/core/buffer.hpp"
#include "annulus/core/types.hpp"

namespace annulus::layer {

using core::Index;

/// Element (row, column) lies at data[row * stride + column], in numbers of `type`; owns nothing.
struct Matrix {
  void* data = nullptr;
  core::DType type = core::DType::float32;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;

  bool empty() const { return rows == 0 || columns == 0; }
  /// Its rows or columns [interval.begin, interval.end).
  Matrix take_rows(core::Interval interval) const { return part(interval, {0, columns}); }
  Matrix take_columns(core::Interval interval) const { return part({0, rows}, interval); }

 private:
  Matrix part(core::Interval row, core::Interval column) const {
    const Index offset = (row.begin * stride + column.begin) * Index(core::bytes_of(type));
    return {static_cast<std::byte*>(data) + offset, type, row.size(), column.size(), stride};
  }
};

/// A matrix without gaps.
inline Matrix matrix_at(void* data, core::DType type, Index rows, Index columns) {
  return {data, type, rows, columns, columns};
}

/// A new matrix without gaps; `owner` keeps it.
inline Matrix make_matrix(core::Buffer& owner, const char* purpose, core::DType type, Index rows, Index columns) {
  owner = core::Buffer(purpose, rows * columns * Index(core::bytes_of(type)));
  return matrix_at(owner.data(), type, rows, columns);
}

// All of these are complete on return. Matrices of one call have the same rows and columns, and do not overlap.

/// to = from, rounded to `to`'s type.
void copy(const Matrix& from, const Matrix& to);
/// A matrix without gaps as a buffer of numbers of `type`: its own buffer, or where that has another type a new one.
core::Buffer stored(const Matrix& matrix, const core::Buffer& owner, core::DType type, const char* purpose);
/// to = value everywhere.
void fill(const Matrix& to, double value);
/// Every row of `to` becomes `row`, a matrix of one row.
void fill_rows(const Matrix& row, const Matrix& to);
/// to += from.
void add(const Matrix& from, const Matrix& to);
/// to -= rate * from.
void subtract_scaled(double rate, const Matrix& from, const Matrix& to);
/// Sum of (y - target)^2 in float64, each row from left to right, rows from first to last; y = scale * (y - target).
double squared_distance(const Matrix& y, const Matrix& target, double scale);

}  // namespace annulus::layer
