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

/// What queries see of keys: nothing, so that a tile of them need not be loaded; some of them; all.
enum class Sight { none, some, all };

KOKKOS_INLINE_FUNCTION Sight sight_of(core::Mask mask, CombRange queries, CombRange keys) {
  if (mask == core::Mask::all) return Sight::all;
  const bool upto = mask == core::Mask::upto;
  if (upto ? keys.lowest > queries.highest : keys.highest <= queries.lowest) return Sight::none;
  return (upto ? keys.highest <= queries.lowest : keys.lowest > queries.highest) ? Sight::all : Sight::some;
}

}  // namespace annulus::kernels::device
