// Launches the teams of both passes over a work list. Execution space and tuning are template parameters, so that tests
// can run every combination, for example a GPU's tuning on host threads.
#pragma once

#include <Kokkos_Core.hpp>
#include <functional>
#include <limits>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/device/backward_team.hpp"
#include "annulus/kernels/device/forward_team.hpp"
#include "annulus/kernels/device/teams.hpp"
#include "annulus/kernels/device/tuning.hpp"

namespace annulus::kernels::device {

/// The arguments of launch_teams() besides the kernel.
struct Launch {
  const core::WorkList& list;
  Index batch;
  int head_dim;
  const std::function<void()>& poll;
  int team_size;
};

/// Launches all teams and polls until they are done. A GPU works while the host polls, so one launch is enough. With
/// host threads a launch returns only when it is done, so there are several launches, each followed by a poll.
template <class ExecSpace, class Tuning, class Kernel>
void launch_teams(const char* label, Kernel kernel, const Launch& launch) {
  core::require(launch.team_size >= Tuning::team_size, [&] {
    return fmt::format("teams have {} threads; their blocks of rows need {} or more", launch.team_size,
                       Tuning::team_size);
  });
  const DeviceWork work(launch.list, launch.batch, Kernel::owner, Tuning::rows);
  kernel.work = work.view();
  kernel.first_team = 0;
  kernel.head_dim = launch.head_dim;
  const ExecSpace space;
  const auto& poll = launch.poll;
  const double flops = poll ? Tuning::flops_per_launch(space.concurrency()) : std::numeric_limits<double>::max();
  for (const Index end : work.launches(launch.head_dim, flops)) {
    Teams<ExecSpace>::launch(label, space, int(end - kernel.first_team), launch.team_size, kernel);
    while (poll && core::is_busy(space)) poll();
    space.fence();
    if (poll) poll();
    kernel.first_team = end;
  }
}

/// Calls run(kept), where the constant `kept` is the number of chunks of a head whose sums stay in registers. If the
/// sums of all chunks fit into registers, `kept` is the number of chunks, rounded up to 1, 2 or 4, otherwise 0.
/// `outputs`: 1 for O or dq, 2 for dk and dv.
template <class Tuning, class T, int outputs, class Run>
void with_kept(int head_dim, const Run& run) {
  using Tile = device::Tile<Tuning, T>;
  constexpr int most = Tuning::kept_bytes / (outputs * int(sizeof(typename Tile::Block)));
  const int chunks = Tile::chunks(head_dim);
  if constexpr (most >= 1) {
    if (chunks <= 1) return run(std::integral_constant<int, 1>());
  }
  if constexpr (most >= 2) {
    if (chunks <= 2) return run(std::integral_constant<int, 2>());
  }
  if constexpr (most >= 4) {
    if (chunks <= 4) return run(std::integral_constant<int, 4>());
  }
  run(std::integral_constant<int, 0>());
}

/// attend() on ExecSpace, with teams of `team_size` threads. ExecSpace must have access to the memory of the default
/// execution space.
template <class ExecSpace, class Tuning>
void launch_attend(const core::WorkList& list, const Operands& operands, State& state,
                   const std::function<void()>& poll, int team_size) {
  const Launch launch{list, state.shape.batch, int(state.shape.head_dim), poll, team_size};
  core::with_type(operands.q.type, [&](auto stored) {
    core::with_precision(state.precision, [&](auto number) {
      using T = decltype(number);
      with_rule<T>(operands.rule, state.shape.heads, [&](auto rule) {
        with_kept<Tuning, T, 1>(launch.head_dim, [&](auto kept) {
          ForwardTeam<ExecSpace, Tuning, decltype(stored), T, decltype(kept)::value, decltype(rule)> kernel;
          kernel.operands = operands;
          kernel.whole_pieces = have_whole_pieces({operands.q, operands.k, operands.v}, launch.head_dim);
          kernel.state = pointers_of<T>(state);
          kernel.score_factor = T(operands.scale * std::numbers::log2e);
          kernel.exponent_bias = T(state.exponent_bias);
          kernel.rule = rule;
          launch_teams<ExecSpace, Tuning>("annulus::attend", kernel, launch);
        });
      });
    });
  });
}

/// The same for attend_backward(), with one kernel for dq and one for dk and dv. The sums do not contain the factors
/// `scale` (of dq and dk) and `output_scale` (of dv), by which finish_gradient() multiplies them.
template <class ExecSpace, class Tuning>
void launch_attend_backward(const core::WorkList& list, const core::Shape& shape, core::Precision precision,
                            const BackwardOperands& operands, const GradientViews& gradients,
                            const std::function<void()>& poll, int team_size) {
  const Launch launch{list, shape.batch, int(shape.head_dim), poll, team_size};
  const auto run = [&](auto kernel, const auto& rule) {
    kernel.pass = {operands, gradients};
    kernel.rule = rule;
    kernel.whole_pieces = have_whole_pieces({operands.q, operands.k, operands.v, operands.dout}, launch.head_dim);
    kernel.score_factor = decltype(kernel.score_factor)(operands.scale * std::numbers::log2e);
    launch_teams<ExecSpace, Tuning>("annulus::attend_backward", kernel, launch);
  };
  core::with_type(operands.q.type, [&](auto stored) {
    core::with_precision(precision, [&](auto number) {
      using Storage = decltype(stored);
      using T = decltype(number);
      with_rule<T>(operands.rule, shape.heads, [&](auto rule) {
        using Rule = decltype(rule);
        if (gradients.dq.data != nullptr) {
          with_kept<Tuning, T, 1>(launch.head_dim, [&](auto kept) {
            constexpr int chunks = decltype(kept)::value;
            run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::queries, chunks, Gradients, Rule>{}, rule);
          });
        }
        if (gradients.dk.data != nullptr) {
          with_kept<Tuning, T, 2>(launch.head_dim, [&](auto kept) {
            constexpr int chunks = decltype(kept)::value;
            run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::keys, chunks, Gradients, Rule>{}, rule);
          });
        }
      });
    });
  });
}

/// The same for attend_statistics(): one kernel for the lists of top keys, if wanted, and one for what keys receive.
template <class ExecSpace, class Tuning>
void launch_attend_statistics(const core::WorkList& list, const core::Shape& shape, Index rows,
                              core::Precision precision, const StatisticOperands& operands,
                              const StatisticViews& statistics, const std::function<void()>& poll, int team_size) {
  const Launch launch{list, shape.batch, int(shape.head_dim), poll, team_size};
  const auto run = [&](auto kernel, const auto& rule) {
    kernel.pass = {operands, statistics, shape, rows};
    kernel.rule = rule;
    kernel.whole_pieces = have_whole_pieces({operands.q, operands.k}, launch.head_dim);
    kernel.score_factor = decltype(kernel.score_factor)(operands.scale * std::numbers::log2e);
    launch_teams<ExecSpace, Tuning>("annulus::attend_statistics", kernel, launch);
  };
  core::with_type(operands.q.type, [&](auto stored) {
    core::with_precision(precision, [&](auto number) {
      using Storage = decltype(stored);
      using T = decltype(number);
      with_rule<T>(operands.rule, shape.heads, [&](auto rule) {
        using Rule = decltype(rule);
        if (statistics.top_keys > 0)
          run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::queries, 0, Probabilities, Rule>{}, rule);
        run(BackwardTeam<ExecSpace, Tuning, Storage, T, Owner::keys, 0, Probabilities, Rule>{}, rule);
      });
    });
  });
}

}  // namespace annulus::kernels::device
