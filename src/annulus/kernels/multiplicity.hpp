// How often a key counts for a query row: once for each pair of the pattern in which the row sees it.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/work_item.hpp"

namespace annulus::kernels {

/// The rows that a pair picks in one segment, or the rows in one row's window: first, first + dilation, ... before
/// `end`, and all rows before `below`. Rows are counted from their document's start.
struct PickedRows {
  core::Index first = 0;
  core::Index end = 0;
  core::Index dilation = 1;
  core::Index below = 0;

  KOKKOS_INLINE_FUNCTION bool contain(core::Index y) const {
    return y < below || (y >= first && y < end && (y - first) % dilation == 0);
  }
};

/// Returns the rows that the pair picks in the segment of row x, or the rows in the window of x. If the pair has
/// segments and does not pick x, x itself is not among them.
KOKKOS_INLINE_FUNCTION PickedRows picked_around(const core::HeadPair& pair, core::Index x) {
  if (pair.offset < 0) return {};
  if (pair.is_window)
    return {x - pair.left * pair.dilation, x + pair.right * pair.dilation + 1, pair.dilation, pair.first};
  const core::Index begin = x / pair.segment * pair.segment;
  return {begin + pair.offset, begin + pair.segment, pair.dilation};
}

/// Returns in how many pairs of one head row x sees row y. The number is largest for y = x. Worked example: pairs (4,
/// 1) and (8, 2) at offset 0: row 6 sees row 4 in both pairs, row 5 in the first, and row 0 in the second.
KOKKOS_INLINE_FUNCTION int multiplicity(const core::HeadPair* of_head, core::Index pairs, core::Index x,
                                        core::Index y) {
  int times = 0;
  for (core::Index i = 0; i < pairs; ++i) {
    const PickedRows picked = picked_around(of_head[i], x);
    if (picked.contain(y) && picked.contain(x)) ++times;
  }
  return times;
}

}  // namespace annulus::kernels
