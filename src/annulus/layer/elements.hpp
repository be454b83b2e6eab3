// Kernels that do one small thing for every element of a matrix, whatever its storage type.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/storage.hpp"
#include "annulus/core/types.hpp"

namespace annulus::layer {

using core::Index;

/// Calls visit(Number{}) with the C++ type that stores `type`.
template <class Visit>
void with_type(core::DType type, Visit&& visit) {
  switch (type) {
    case core::DType::float64:
      return visit(double{});
    case core::DType::float32:
      return visit(float{});
    case core::DType::float16:
      return visit(core::Half{});
    case core::DType::bfloat16:
      return visit(core::BFloat16{});
  }
}

/// A team's part of for_each_element(): one row.
template <class Body>
struct RowOfElements {
  Body body;
  Index columns;

  using Member = Kokkos::TeamPolicy<>::member_type;
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const Index row = team.league_rank();
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, columns), [&](const Index column) { body(row, column); });
  }
};

/// Runs body(row, column), a functor for the device, for every element. Complete on return.
template <class Body>
void for_each_element(const char* label, Index rows, Index columns, const Body& body) {
  if (rows == 0 || columns == 0) return;
  Kokkos::parallel_for(label, Kokkos::TeamPolicy<>(int(rows), Kokkos::AUTO), RowOfElements<Body>{body, columns});
  Kokkos::fence();
}

}  // namespace annulus::layer
