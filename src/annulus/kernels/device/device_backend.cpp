#include "annulus/kernels/device/device_backend.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/kernels/device/team_attend.hpp"
#include "annulus/kernels/device/team_finish.hpp"

namespace annulus::kernels {

using Space = Kokkos::DefaultExecutionSpace;

void device_attend(const core::WorkList& work, const Operands& operands, State& state,
                   const std::function<void()>& poll) {
  using Tuning = device::TuningOf<Space>::type;
  device::team_attend<Space, Tuning>(work, operands, state, poll, Tuning::team_size);
}

void device_finish(const State& state, const Finished& to, double output_scale) {
  using Tuning = device::TuningOf<Space>::type;
  device::team_finish<Space>(state, to, output_scale, Tuning::team_size);
}

}  // namespace annulus::kernels
