// The portable back end. It computes with Kokkos teams and their scratch memory on the default execution space. Builds
// for CUDA use the GPU's matrix units for the calls that matrix units can take (kernels/cuda).
#include "annulus/core/error.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/kernels/backend.hpp"
#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/cuda/choice.hpp"
#include "annulus/kernels/device/epilogue.hpp"
#include "annulus/kernels/device/launch.hpp"

namespace annulus::kernels {
namespace {

// No name below occurs outside this namespace, because nvcc confuses a name in an unnamed namespace with the same name
// outside.

using core::Index;
using Space = Kokkos::DefaultExecutionSpace;
using Tuning = device::TuningOf<Space>::type;

/// Returns 0, because tiles are in the teams' scratch memory, which Kokkos provides.
Index no_bytes(const core::Shape&, Index, core::Precision) { return 0; }

/// Throws Error if a result must be made granule by granule. Teams cannot do this, because they add in another order.
[[maybe_unused]] void require_no_granules(bool by_granules) {
  core::require(!by_granules, [] {
    return fmt::format("the {} cannot run the kernel of matrix units that makes reproducible results",
                       core::gpu_name());
  });
}

void attend_by_teams(const core::WorkList& work, const Operands& operands, State& state,
                     const std::function<void()>& poll) {
  if constexpr (cuda::is_built) {
    if (cuda::attend(work, operands, state, poll)) return;
    require_no_granules(state.by_granules);
  }
  device::launch_attend<Space, Tuning>(work, operands, state, poll, Tuning::team_size);
}

void finish_by_teams(const State& state, const Finished& to, double output_scale) {
  device::launch_finish<Space>(state, to, output_scale);
}

void backward_by_teams(const core::WorkList& work, const core::Shape& shape, Index /*rows*/, core::Precision precision,
                       const BackwardOperands& operands, const GradientViews& gradients,
                       const std::function<void()>& poll) {
  if constexpr (cuda::is_built) {
    if (cuda::attend_backward(work, shape, precision, operands, gradients, poll)) return;
    require_no_granules(operands.by_granules);
  }
  device::launch_attend_backward<Space, Tuning>(work, shape, precision, operands, gradients, poll, Tuning::team_size);
}

void statistics_by_teams(const core::WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                         const StatisticOperands& operands, const StatisticViews& statistics,
                         const std::function<void()>& poll) {
  device::launch_attend_statistics<Space, Tuning>(work, shape, rows, precision, operands, statistics, poll,
                                                  Tuning::team_size);
}

void gradient_by_teams(Gradient which, const core::Shape& shape, core::Precision /*precision*/,
                       const core::TensorView& accumulator, const core::TensorView& to, double scale,
                       double output_scale) {
  const double unit = which == Gradient::dv ? output_scale : scale;
  device::launch_gradient<Space>(shape, shape.sequence, accumulator, to, unit);
}

}  // namespace

const BackendFunctions device_backend{
    .attend = attend_by_teams,
    .attend_bytes = no_bytes,
    .finish = finish_by_teams,
    .backward_delta = device::launch_delta<Space>,
    .attend_backward = backward_by_teams,
    .attend_backward_bytes = [](const core::Shape&, Index, core::Precision, bool) { return Index(0); },
    .attend_statistics = statistics_by_teams,
    .attend_statistics_bytes = [](const core::Shape&, Index, Index, Index, core::Precision) { return Index(0); },
    .finish_gradient = gradient_by_teams};

}  // namespace annulus::kernels
