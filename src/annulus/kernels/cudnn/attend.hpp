// Both passes with an engine for dense attention of strided tensors (engine.hpp). Work lists are cut into calls of the
// engine, whose results are merged into states and sums. Our own kernels compute what the engine cannot compute.
#pragma once

#include <functional>
#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/cudnn/engine.hpp"

namespace annulus::kernels::cudnn {

using Poll = std::function<void()>;

/// Like the functions of these names in attention.hpp and backward.hpp.
void attend(Engine& engine, const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
void attend_backward(Engine& engine, const core::WorkList& work, const core::Shape& shape, Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const Poll& poll);

/// Return the most bytes that attend() and attend_backward() allocate. `shape` has all heads. attend_bytes() leaves out
/// the engine's workspace. attend_backward_bytes() includes the workspace that cuDNN's kernels need: float32 sums of dq
/// (and, if query heads share keys, of dk and dv of each query head), and one number for each row and head.
Index attend_bytes(const core::Shape& shape, Index rows);
Index attend_backward_bytes(const core::Shape& shape, Index rows);

/// For the back end's description (backend_description.hpp).
const ComputedPairs& computed_pairs();
std::string describe_pairs();
std::optional<Refusal> refusal(const WantedOfBackend& wanted);

}  // namespace annulus::kernels::cudnn
