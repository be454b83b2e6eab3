// Which keys a query sees, as comb indices tell.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/work_item.hpp"

namespace annulus::kernels::device {

/// Lowest and highest comb index of some rows.
struct CombRange {
  core::Index lowest;
  core::Index highest;
};

KOKKOS_INLINE_FUNCTION bool is_hidden(core::Mask mask, core::Index query_t, core::Index key_t) {
  return mask != core::Mask::all && (key_t > query_t) == (mask == core::Mask::upto);
}

/// False where a tile of keys need not be loaded: none of these queries sees one of them.
KOKKOS_INLINE_FUNCTION bool any_visible(core::Mask mask, CombRange queries, CombRange keys) {
  return mask == core::Mask::all || (mask == core::Mask::upto ? keys.lowest <= queries.highest  //
                                                              : keys.highest > queries.lowest);
}

}  // namespace annulus::kernels::device
