// Small device functions a team is built from.
#pragma once

#include <Kokkos_Core.hpp>

namespace annulus::kernels::device {

/// Calls visit(row, column) for every element of a rows x columns tile, columns fastest over the team's threads, so
/// that neighbouring threads touch neighbouring addresses. Walks without a division per element.
template <class Member, class Visit>
KOKKOS_INLINE_FUNCTION void for_each_element(const Member& team, int rows, int columns, const Visit& visit) {
  const int row_step = team.team_size() / columns;
  const int column_step = team.team_size() % columns;
  int row = team.team_rank() / columns;
  int column = team.team_rank() % columns;
  while (row < rows) {
    visit(row, column);
    row += row_step;
    column += column_step;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
  }
}

/// sum[r][c] += sum over x < depth of a[r * a_stride + x] * b[x * b_stride + c * ColumnStep]: one thread's block of a
/// product of tiles, held in registers. The column step is `column_step`, or 1 known to the compiler when
/// SideBySide.
template <bool SideBySide, int Rows, int Columns, class T>
KOKKOS_INLINE_FUNCTION void multiply_block(T (&sum)[Rows][Columns], const T* a, int a_stride, const T* b, int b_stride,
                                           int column_step, int depth) {
  const int step = SideBySide ? 1 : column_step;
  for (int x = 0; x < depth; ++x) {
    T b_row[Columns];
    for (int c = 0; c < Columns; ++c) b_row[c] = b[x * b_stride + c * step];
    for (int r = 0; r < Rows; ++r) {
      const T a_element = a[r * a_stride + x];
      for (int c = 0; c < Columns; ++c) sum[r][c] += a_element * b_row[c];
    }
  }
}

/// Calls visit(first_row, first_column, column_step) for every Rows x Columns block of a tile, one block per thread at
/// a time. Blocks may reach beyond the tile; column c of a block is first_column + c * column_step.
///   side by side:   block columns 0 1 2 3 | 4 5 6 7                    (one cache line)
///   else:           block columns 0 2 4 6 | 1 3 5 7, step 2 = blocks   (neighbouring threads, neighbouring columns)
template <class Tuning, class Member, class Visit>
KOKKOS_INLINE_FUNCTION void for_each_block(const Member& team, int rows, int columns, const Visit& visit) {
  const int across = (columns + Tuning::block_columns - 1) / Tuning::block_columns;
  const int down = (rows + Tuning::block_rows - 1) / Tuning::block_rows;
  for_each_element(team, down, across, [&](int row, int column) {
    visit(row * Tuning::block_rows, Tuning::columns_side_by_side ? column * Tuning::block_columns : column,
          Tuning::columns_side_by_side ? 1 : across);
  });
}

/// `value` rounded up to a multiple of `unit`.
KOKKOS_INLINE_FUNCTION int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

}  // namespace annulus::kernels::device
