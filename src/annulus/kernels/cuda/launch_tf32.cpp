#include "annulus/kernels/cuda/launch.hpp"

namespace annulus::kernels::cuda {

bool attend_tf32(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  return launch_forward_of<EngineTf32, float, sizes_tf32>(work, operands, state, poll);
}

bool can_multiply_tf32() { return can_run<ForwardBlock<EngineTf32, float, sizes_tf32[0]>>(); }

}  // namespace annulus::kernels::cuda
