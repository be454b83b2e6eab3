#include "annulus/kernels/cuda/launch_backward.hpp"

namespace annulus::kernels::cuda {

bool attend_backward_float16(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                             const GradientViews& gradients, const Poll& poll) {
  return launch_backward_of<Engine16, core::Half, query_sizes_16, key_sizes_16>(work, shape, operands, gradients, poll);
}

}  // namespace annulus::kernels::cuda
