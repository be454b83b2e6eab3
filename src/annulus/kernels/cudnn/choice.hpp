// Which calls cuDNN can take at all; our own kernels do all others.
#pragma once

#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::cudnn {

/// Why our own kernels must do attend() of such a call; empty: cuDNN may do it. Examples: "cuDNN takes tensors of
/// float16 and bfloat16, these are float32", "the same bits for any cut are asked for".
std::string why_not_attend(const Operands& operands, const State& state);

/// The same for attend_backward(). "out is not available, or a gradient of the LSE is given": cuDNN computes delta from
/// out.
std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients);

}  // namespace annulus::kernels::cudnn
