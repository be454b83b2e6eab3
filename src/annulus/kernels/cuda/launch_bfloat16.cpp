#include "annulus/kernels/cuda/launch.hpp"

namespace annulus::kernels::cuda {

bool attend_bfloat16(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  return launch_forward_of<Engine16, core::BFloat16, sizes_16>(work, operands, state, poll);
}

}  // namespace annulus::kernels::cuda
