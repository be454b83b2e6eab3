// attend() and attend_backward() on tensor cores; in builds for CUDA only.
#pragma once

#include <functional>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::cuda {

using Poll = std::function<void()>;

/// Does attend() and returns true if this GPU's tensor cores can compute the call, otherwise only returns false.
/// Complete on return.
bool attend(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);

/// The same for attend_backward().
bool attend_backward(const core::WorkList& work, const core::Shape& shape, core::Precision precision,
                     const BackwardOperands& operands, const GradientViews& gradients, const Poll& poll);

/// True if this GPU can compute all calls of a problem granule by granule. why_no_granules() must be empty for the
/// problem, and there must be a GPU.
bool has_granules(const core::Shape& shape, core::DType type, core::Precision precision);

/// True if this GPU can multiply TF32 numbers, and the build has code for it. There must be a GPU.
bool can_multiply_tf32();

/// attend() and attend_backward() for one type of numbers. Each function has a file of its own (launch_*.cpp), so that
/// the files compile in parallel.
bool attend_bfloat16(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
bool attend_float16(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
bool attend_tf32(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
bool attend_3xtf32(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
bool attend_float64(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);

bool attend_backward_bfloat16(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                              const GradientViews& gradients, const Poll& poll);
bool attend_backward_float16(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                             const GradientViews& gradients, const Poll& poll);
bool attend_backward_tf32(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                          const GradientViews& gradients, const Poll& poll);
bool attend_backward_3xtf32(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                            const GradientViews& gradients, const Poll& poll);
bool attend_backward_float64(const core::WorkList& work, const core::Shape& shape, const BackwardOperands& operands,
                             const GradientViews& gradients, const Poll& poll);

}  // namespace annulus::kernels::cuda
