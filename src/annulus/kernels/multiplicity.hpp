// How often a key counts for a query row: once for each pair of the pattern in which both are picked.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/work_item.hpp"

namespace annulus::kernels {

/// Pairs of one head in which rows x and y of a document, counted from its start, are picked in the same segment.
/// Worked example: pairs (4, 1) and (8, 2) at offset 0: rows 6 and 4 meet in both, rows 6 and 5 in the first, rows 6 and
/// 0 in the second.
KOKKOS_INLINE_FUNCTION int multiplicity(const core::HeadPair* of_head, core::Index pairs, core::Index x,
                                        core::Index y) {
  int times = 0;
  for (core::Index i = 0; i < pairs; ++i) {
    const core::HeadPair& pair = of_head[i];
    const core::Index segment = x / pair.segment, begin = segment * pair.segment;
    const bool are_picked = (x - begin) % pair.dilation == pair.offset && (y - begin) % pair.dilation == pair.offset;
    if (are_picked && y / pair.segment == segment) ++times;
  }
  return times;
}

}  // namespace annulus::kernels
