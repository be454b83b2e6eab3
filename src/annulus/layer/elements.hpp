// Calls a small function for every element of a matrix, in parallel.
#pragma once

#include <Kokkos_Core.hpp>
#include <limits>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"

namespace annulus::layer {

using core::Index;
using core::with_type;

/// The work of one team in for_each_element(): up to `block` consecutive elements of one matrix row.
template <class Body>
struct ElementsOfTeam {
  static constexpr Index block = 4096;  // large enough to keep a team busy; so small that many teams share a long row

  Body body;
  Index columns;
  Index blocks_per_row;

  using Member = Kokkos::TeamPolicy<>::member_type;
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const Index row = team.league_rank() / blocks_per_row, first = team.league_rank() % blocks_per_row * block;
    const Index count = columns - first < block ? columns - first : block;
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, count), [&](const Index column) { body(row, first + column); });
  }
};

/// Calls body(row, column) for every element of a rows x columns matrix. `body` is a functor that runs on the device.
/// Returns when all calls have ended.
template <class Body>
void for_each_element(const char* label, Index rows, Index columns, const Body& body) {
  if (rows == 0 || columns == 0) return;
  using Team = ElementsOfTeam<Body>;
  const Index blocks = core::ceil_div(columns, Team::block);
  core::require(rows * blocks <= std::numeric_limits<int>::max(),
                [&] { return fmt::format("{} x {} elements are too many for one kernel", rows, columns); });
  Kokkos::parallel_for(label, Kokkos::TeamPolicy<>(int(rows * blocks), Kokkos::AUTO), Team{body, columns, blocks});
  Kokkos::DefaultExecutionSpace().fence();
}

}  // namespace annulus::layer
