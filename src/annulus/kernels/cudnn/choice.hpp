// Decides which calls cuDNN may be able to compute, without a look at their work lists. Our own kernels compute all
// other calls.
#pragma once

#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::cudnn {

/// Returns why our own kernels must compute such a call of attend(); empty: cuDNN may be able to compute it. Examples:
/// "cuDNN takes tensors of float16 and bfloat16, these are float32", "the same bits for any cut are asked for".
std::string why_not_attend(const Operands& operands, const State& state);

/// The same for attend_backward(). Example: "out is not available, or a gradient of the LSE is given". cuDNN computes
/// delta from out, and cannot subtract a gradient of the LSE.
std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients);

}  // namespace annulus::kernels::cudnn
