// Launches the teams of both passes over a work list. Templates of execution space and tuning, so that tests run every
// combination, the GPU's numbers on host threads included.
#pragma once

#include <Kokkos_Core.hpp>
#include <functional>
#include <limits>
#include <numbers>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/device/backward_team.hpp"
#include "annulus/kernels/device/forward_team.hpp"

namespace annulus::kernels::device {

/// Where and when teams run.
struct Launch {
  const core::WorkList& list;
  Index batch;
  int head_dim;
  const std::function<void()>& poll;
  int team_size;
};

/// A kernel as Kokkos calls it.
template <class Kernel, int level>
struct Called {
  Kernel kernel;
  KOKKOS_FUNCTION void operator()(const typename Kernel::Member& team) const { kernel.template run<level>(team); }
};

/// Launches all teams, their scratch memory in this level, and polls until they are done. Where launches run beside the
/// host, as on a GPU, one launch is enough; host threads are one themselves, so that their work is cut.
template <class ExecSpace, class Tuning, int level, class Kernel>
void launch_all(const char* label, Kernel kernel, const Launch& launch) {
  const DeviceWork work(launch.list, launch.batch, Kernel::owner, kernel.layout.tile.owned);
  kernel.work = work.view();
  kernel.first_team = 0;
  const ExecSpace space;
  const auto& poll = launch.poll;
  const double flops = poll ? Tuning::flops_per_launch(space.concurrency()) : std::numeric_limits<double>::max();
  for (const Index end : work.launches(launch.head_dim, flops)) {
    typename Kernel::Policy policy(space, int(end - kernel.first_team), launch.team_size);
    policy.set_scratch_size(level, Kokkos::PerTeam(int(Kernel::scratch_bytes(kernel.layout))));
    Kokkos::parallel_for(label, policy, Called<Kernel, level>{kernel});
    while (poll && core::is_busy(space)) poll();
    space.fence();
    if (poll) poll();
    kernel.first_team = end;
  }
}

/// Runs a kernel that has its tensors and factors already: chooses its tile, the first of its table whose scratch
/// memory fits into level 0 (fast, small), or else the first one in level 1.
template <class ExecSpace, class Tuning, class Kernel>
void launch_teams(const char* label, Kernel kernel, const Launch& launch) {
  for (const TileSize tile : Kernel::tiles) {
    kernel.layout = {tile, launch.head_dim};
    if (Kernel::scratch_bytes(kernel.layout) > std::size_t(Kernel::Policy::scratch_size_max(0))) continue;
    return launch_all<ExecSpace, Tuning, 0>(label, kernel, launch);
  }
  kernel.layout = {Kernel::tiles[0], launch.head_dim};
  launch_all<ExecSpace, Tuning, 1>(label, kernel, launch);
}

/// attend() on ExecSpace, which must reach the default execution space's memory, with teams of `team_size` threads.
template <class ExecSpace, class Tuning>
void launch_attend(const core::WorkList& list, const Operands& operands, State& state,
                   const std::function<void()>& poll, int team_size) {
  const Launch launch{list, state.shape.batch, int(state.shape.head_dim), poll, team_size};
  core::with_type(operands.q.type, [&](auto stored) {
    core::with_precision(state.precision, [&](auto number) {
      using T = decltype(number);
      ForwardTeam<ExecSpace, Tuning, decltype(stored), T> kernel;
      kernel.operands = operands;
      kernel.state = pointers_of<T>(state);
      kernel.score_factor = T(operands.scale * std::numbers::log2e);
      kernel.exponent_bias = T(state.exponent_bias);
      launch_teams<ExecSpace, Tuning>("annulus::attend", kernel, launch);
    });
  });
}

/// attend_backward() likewise, one launch for dq and one for dk and dv. Accumulators are the sums without `scale` (dq,
/// dk) and `output_scale` (dv).
template <class ExecSpace, class Tuning>
void launch_attend_backward(const core::WorkList& list, const core::Shape& shape, core::Precision precision,
                            const BackwardOperands& operands, const GradientViews& gradients,
                            const std::function<void()>& poll, int team_size) {
  const Launch launch{list, shape.batch, int(shape.head_dim), poll, team_size};
  const auto run = [&](auto kernel) {
    kernel.makes = {operands, gradients};
    kernel.score_factor = decltype(kernel.score_factor)(operands.scale * std::numbers::log2e);
    launch_teams<ExecSpace, Tuning>("annulus::attend_backward", kernel, launch);
  };
  core::with_type(operands.q.type, [&](auto stored) {
    core::with_precision(precision, [&](auto number) {
      using Storage = decltype(stored);
      using T = decltype(number);
      if (gradients.dq.data != nullptr) run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::queries>{});
      if (gradients.dk.data != nullptr) run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::keys>{});
    });
  });
}

/// attend_statistics() likewise, one launch for the lists, where they are wanted, and one for what keys receive.
template <class ExecSpace, class Tuning>
void launch_attend_statistics(const core::WorkList& list, const core::Shape& shape, Index rows,
                              core::Precision precision, const StatisticOperands& operands,
                              const StatisticViews& statistics, const std::function<void()>& poll, int team_size) {
  const Launch launch{list, shape.batch, int(shape.head_dim), poll, team_size};
  const auto run = [&](auto kernel) {
    kernel.makes = {operands, statistics, shape, rows};
    kernel.score_factor = decltype(kernel.score_factor)(operands.scale * std::numbers::log2e);
    launch_teams<ExecSpace, Tuning>("annulus::attend_statistics", kernel, launch);
  };
  core::with_type(operands.q.type, [&](auto stored) {
    core::with_precision(precision, [&](auto number) {
      using Storage = decltype(stored);
      using T = decltype(number);
      if (statistics.top_keys > 0) run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::queries, Probabilities>{});
      run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::keys, Probabilities>{});
    });
  });
}

}  // namespace annulus::kernels::device
