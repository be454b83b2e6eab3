#include "annulus/kernels/cuda/launch_backward.hpp"

namespace annulus::kernels::cuda {

bool attend_backward_3xtf32(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                            const GradientViews& gradients, const Poll& poll) {
  return launch_backward_of<Engine3xTf32, float, query_sizes_3xtf32, key_sizes_3xtf32>(work, shape, operands, gradients,
                                                                                       poll);
}

}  // namespace annulus::kernels::cuda
