// Both passes by an engine for dense attention of strided tensors (engine.hpp): work lists are cut into calls, results
// merged into states and sums. What the engine cannot take our own kernels do, so that every list is done.
#pragma once

#include <functional>
#include <string>

#include "annulus/kernels/attention.hpp"
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

/// Who has done the work of this process so far.
struct Shares {
  double engine = 0;  ///< (query, key) pairs of items, hidden ones counted too
  double own = 0;
  std::string reason = {};  ///< why our own kernels did some: the first one

  /// A share between 0 and 1; NaN where nothing was computed.
  double of_engine() const { return engine / (engine + own); }
};
const Shares& shares();
/// "87.5 % of the (query, key) pairs on rank 0, our own kernels the rest: rows in 5 x 5 pieces".
std::string describe_shares();

}  // namespace annulus::kernels::cudnn
