// Which calls cuDNN can compute, whatever their work lists; our own kernels compute all others.
#pragma once

#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::cudnn {

/// Returns why our own kernels must compute such a call of attend(); empty: cuDNN may be able to compute it. Examples:
/// "cuDNN takes tensors of float16 and bfloat16, these are float32", "the same bits for any cut are asked for".
std::string why_not_attend(const Operands& operands, const State& state);

/// The same for attend_backward(). Example: "out is not available, or a gradient of the LSE is given", because cuDNN
/// computes delta from out, without such a gradient.
std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients);

}  // namespace annulus::kernels::cudnn
