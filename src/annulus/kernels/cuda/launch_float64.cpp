#include "annulus/kernels/cuda/launch.hpp"

namespace annulus::kernels::cuda {

bool attend_float64(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  return launch_forward_of<Engine64, double, sizes_64>(work, operands, state, poll);
}

}  // namespace annulus::kernels::cuda
