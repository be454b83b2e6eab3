#include "annulus/kernels/cuda/launch.hpp"

namespace annulus::kernels::cuda {

bool attend_3xtf32(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  return launch_forward_of<Engine3xTf32, float, sizes_3xtf32>(work, operands, state, poll);
}

}  // namespace annulus::kernels::cuda
