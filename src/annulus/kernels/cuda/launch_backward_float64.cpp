#include "annulus/kernels/cuda/launch_backward.hpp"

namespace annulus::kernels::cuda {

bool attend_backward_float64(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                             const GradientViews& gradients, const Poll& poll) {
  return launch_backward_of<Engine64, double, query_sizes_64, key_sizes_64>(work, shape, operands, gradients, poll);
}

}  // namespace annulus::kernels::cuda
