// Small functions of device code that several kernels use.
#pragma once

#include <Kokkos_Core.hpp>

namespace annulus::kernels::device {

/// Calls visit(row, column) for every element of a rows x columns tile. Neighbouring threads of the team get
/// neighbouring columns, so that they touch neighbouring addresses. There is no division for each element.
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

/// `value` rounded up to a multiple of `unit`.
KOKKOS_INLINE_FUNCTION int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

}  // namespace annulus::kernels::device
