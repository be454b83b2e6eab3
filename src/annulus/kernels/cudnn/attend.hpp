// Both passes by an engine for dense attention of strided tensors (engine.hpp): work lists are cut into calls, results
// merged into states and sums. What the engine cannot take our own kernels do, so that every list is done.
#pragma once

#include <functional>
#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/cudnn/engine.hpp"

namespace annulus::kernels::cudnn {

using Poll = std::function<void()>;

/// attend() and attend_backward() of attention.hpp and backward.hpp.
void attend(Engine& engine, const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
void attend_backward(Engine& engine, const core::WorkList& work, const core::Shape& shape, Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const Poll& poll);

/// What they take at most besides the engine's own workspace; `shape` has all heads. Backward with sums of dq in
/// float32 and one number a row, as cuDNN's kernels keep them there.
Index attend_bytes(const core::Shape& shape, Index rows);
Index attend_backward_bytes(const core::Shape& shape, Index rows);

/// For the back end's description (backend_description.hpp).
const ComputedPairs& computed_pairs();
std::string describe_pairs();
std::optional<Refusal> refusal(const WantedOfBackend& wanted);

}  // namespace annulus::kernels::cudnn
