// Entry points of the host back end: attend() and finish() of attention.hpp, and those of backward.hpp, on the vector
// units of the processor. Only for tensors in host memory.
#pragma once

#include <functional>

#include "annulus/core/instruction_set.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::host {

using core::best_instruction_set;
using core::InstructionSet;
using core::usable_instruction_sets;

/// Keys of a packed tile, and query rows times heads of a task; 0: what tuning.hpp says. Tests show that no bit of a
/// result depends on them.
struct TileSizes {
  core::Index keys = 0;
  core::Index rows = 0;
};

void host_attend(const core::WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 InstructionSet set = best_instruction_set(), const TileSizes& sizes = {});

/// See attend_bytes() of attention.hpp.
core::Index host_attend_bytes(const core::Shape& shape, core::Index rows, core::Precision precision,
                              InstructionSet set = best_instruction_set());

void host_finish(const State& state, const Finished& to, double output_scale,
                 InstructionSet set = best_instruction_set());

/// out and dout of one storage type.
void host_backward_delta(const core::Shape& shape, core::Index rows, const core::TensorView& out,
                         const core::TensorView& dout, const core::TensorView& dlse, const core::TensorView& delta,
                         InstructionSet set = best_instruction_set());

void host_attend_backward(const core::WorkList& work, const core::Shape& shape, core::Index rows,
                          core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                          const std::function<void()>& poll, InstructionSet set = best_instruction_set());

/// See attend_backward_bytes() of backward.hpp.
core::Index host_attend_backward_bytes(const core::Shape& shape, core::Index rows, core::Precision precision,
                                       InstructionSet set = best_instruction_set());

/// Accumulators hold dq / scale, log2(e) dk and dv; output_scale is in all of them already.
void host_finish_gradient(Gradient which, core::Index batch, core::Index rows, core::Index heads, core::Index head_dim,
                          const core::TensorView& accumulator, const core::TensorView& to, double scale,
                          double output_scale, InstructionSet set = best_instruction_set());

}  // namespace annulus::kernels::host
