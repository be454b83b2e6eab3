// Launches AttendTeam over a work list. A template of execution space and tuning, so that tests run every combination,
// the GPU's numbers on host threads included.
#pragma once

#include <Kokkos_Core.hpp>
#include <functional>
#include <limits>
#include <numbers>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/attend_team.hpp"
#include "annulus/kernels/device/device_work.hpp"

namespace annulus::kernels::device {

/// A tile, and the level of scratch memory it lives in.
struct TileChoice {
  TileSize tile;
  int scratch_level;
};

/// The first of the table's tiles whose scratch memory fits into level 0 (fast, small); if none does, the first one in
/// level 1.
template <class Kernel, class Tuning>
TileChoice choose_tile(int head_dim) {
  for (const TileSize tile : Tuning::tiles) {
    const ScratchLayout<Tuning> layout{tile, head_dim};
    if (Kernel::scratch_bytes(layout) <= std::size_t(Kernel::Policy::scratch_size_max(0))) return {tile, 0};
  }
  return {Tuning::tiles[0], 1};
}

template <class ExecSpace, class Tuning, class Storage, class T>
void team_attend_typed(const core::WorkList& list, const Operands& operands, State& state,
                       const std::function<void()>& poll, int team_size) {
  using Kernel = AttendTeam<ExecSpace, Tuning, Storage, T>;
  const int head_dim = int(state.shape.head_dim);
  const TileChoice choice = choose_tile<Kernel, Tuning>(head_dim);
  const DeviceWork work(list, state.shape.batch, choice.tile.query_rows);

  Kernel kernel;
  kernel.work = work.view();
  kernel.first_team = 0;
  kernel.q = operands.q;
  kernel.k = operands.k;
  kernel.v = operands.v;
  kernel.state = {static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()), static_cast<T*>(state.acc.data()),
                  state.rows, state.shape.heads};
  kernel.scale = T(operands.scale * std::numbers::log2e);
  kernel.lift = T(state.lift);
  kernel.layout = {choice.tile, head_dim};
  kernel.scratch_level = choice.scratch_level;

  const double flops = poll ? Tuning::flops_per_launch(ExecSpace().concurrency()) : std::numeric_limits<double>::max();
  for (const Index end : work.launches(head_dim, flops)) {
    typename Kernel::Policy policy(int(end - kernel.first_team), team_size);
    policy.set_scratch_size(choice.scratch_level, Kokkos::PerTeam(int(Kernel::scratch_bytes(kernel.layout))));
    Kokkos::parallel_for("annulus::attend", policy, kernel);
    ExecSpace().fence();
    if (poll) poll();
    kernel.first_team = end;
  }
}

/// Picks the accumulation type.
template <class ExecSpace, class Tuning, class Storage>
void team_attend_stored(const core::WorkList& work, const Operands& operands, State& state,
                        const std::function<void()>& poll, int team_size) {
  if (state.precision == core::Precision::float64) {
    team_attend_typed<ExecSpace, Tuning, Storage, double>(work, operands, state, poll, team_size);
  } else {
    team_attend_typed<ExecSpace, Tuning, Storage, float>(work, operands, state, poll, team_size);
  }
}

/// attend() on ExecSpace, which must reach the default execution space's memory, with teams of `team_size` threads.
template <class ExecSpace, class Tuning>
void team_attend(const core::WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 int team_size) {
  switch (operands.q.type) {
    case core::DType::float64:
      return team_attend_stored<ExecSpace, Tuning, double>(work, operands, state, poll, team_size);
    case core::DType::float32:
      return team_attend_stored<ExecSpace, Tuning, float>(work, operands, state, poll, team_size);
    case core::DType::float16:
      return team_attend_stored<ExecSpace, Tuning, core::Half>(work, operands, state, poll, team_size);
    case core::DType::bfloat16:
      return team_attend_stored<ExecSpace, Tuning, core::BFloat16>(work, operands, state, poll, team_size);
  }
}

}  // namespace annulus::kernels::device
