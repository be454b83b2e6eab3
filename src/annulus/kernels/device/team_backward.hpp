// Launches BackwardTeam over a work list, once for dq and once for dk and dv. A template of execution space and tuning,
// so that tests run every combination, the GPU's numbers on host threads included.
#pragma once

#include <Kokkos_Core.hpp>
#include <functional>
#include <limits>
#include <numbers>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/device/backward_team.hpp"
#include "annulus/kernels/device/backward_work.hpp"

namespace annulus::kernels::device {

/// What the launches of one attend_backward() have in common.
struct BackwardCall {
  const core::WorkList& list;
  Index batch;
  int head_dim;
  const BackwardOperands& operands;
  const GradientViews& gradients;
  const std::function<void()>& poll;
  int team_size;
};

template <class ExecSpace, class Tuning, class Storage, class T, Owner owner>
void team_backward_owned(const BackwardCall& call) {
  using Kernel = BackwardTeam<ExecSpace, Tuning, Storage, T, owner>;
  Kernel kernel;
  kernel.operands = call.operands;
  kernel.gradients = call.gradients;
  kernel.score_factor = T(call.operands.scale * std::numbers::log2e);
  // The first of the table's tiles whose scratch memory fits into level 0 (fast, small); if none does, the first one in
  // level 1.
  kernel.layout = {Tuning::backward_tiles[0], call.head_dim};
  kernel.scratch_level = 1;
  for (const BackwardTile tile : Tuning::backward_tiles) {
    if (Kernel::scratch_bytes({tile, call.head_dim}) > std::size_t(Kernel::Policy::scratch_size_max(0))) continue;
    kernel.layout.tile = tile;
    kernel.scratch_level = 0;
    break;
  }
  const BackwardWork work(call.list, call.batch, owner, kernel.layout.tile.owned);
  kernel.work = work.view();
  kernel.first_team = 0;

  const double flops =
      call.poll ? Tuning::flops_per_launch(ExecSpace().concurrency()) : std::numeric_limits<double>::max();
  for (const Index end : work.launches(call.head_dim, flops)) {
    typename Kernel::Policy policy(int(end - kernel.first_team), call.team_size);
    policy.set_scratch_size(kernel.scratch_level, Kokkos::PerTeam(int(Kernel::scratch_bytes(kernel.layout))));
    Kokkos::parallel_for("annulus::attend_backward", policy, kernel);
    ExecSpace().fence();
    if (call.poll) call.poll();
    kernel.first_team = end;
  }
}

/// Picks the accumulation type.
template <class ExecSpace, class Tuning, class Storage>
void team_backward_stored(const BackwardCall& call, core::Precision precision) {
  if (precision == core::Precision::float64) {
    team_backward_owned<ExecSpace, Tuning, Storage, double, Owner::queries>(call);
    team_backward_owned<ExecSpace, Tuning, Storage, double, Owner::keys>(call);
  } else {
    team_backward_owned<ExecSpace, Tuning, Storage, float, Owner::queries>(call);
    team_backward_owned<ExecSpace, Tuning, Storage, float, Owner::keys>(call);
  }
}

/// attend_backward() on ExecSpace, which must reach the default execution space's memory, with teams of `team_size`
/// threads. Accumulators are the sums without `scale` (dq, dk) and `output_scale` (dv).
template <class ExecSpace, class Tuning>
void team_backward(const core::WorkList& work, const core::Shape& shape, core::Precision precision,
                   const BackwardOperands& operands, const GradientViews& gradients, const std::function<void()>& poll,
                   int team_size) {
  const BackwardCall call{work, shape.batch, int(shape.head_dim), operands, gradients, poll, team_size};
  switch (operands.q.type) {
    case core::DType::float64:
      return team_backward_stored<ExecSpace, Tuning, double>(call, precision);
    case core::DType::float32:
      return team_backward_stored<ExecSpace, Tuning, float>(call, precision);
    case core::DType::float16:
      return team_backward_stored<ExecSpace, Tuning, core::Half>(call, precision);
    case core::DType::bfloat16:
      return team_backward_stored<ExecSpace, Tuning, core::BFloat16>(call, precision);
  }
}

}  // namespace annulus::kernels::device
