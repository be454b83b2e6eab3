// Entry points of the host back end: attend() and finish() of attention.hpp on the vector units of the processor. Only
// for tensors in host memory.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "annulus/kernels/attention.hpp"

namespace annulus::kernels::host {

enum class InstructionSet { baseline, avx2, avx512 };

std::string_view name_of(InstructionSet set);

/// Those compiled in that this processor has, slowest first; baseline always is one.
std::vector<InstructionSet> usable_instruction_sets();

/// The last of them.
InstructionSet best_instruction_set();

void host_attend(const core::WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 InstructionSet set = best_instruction_set());

/// See attend_bytes() of attention.hpp.
core::Index host_attend_bytes(const core::Shape& shape, core::Index rows, core::Precision precision,
                              InstructionSet set = best_instruction_set());

void host_finish(const State& state, const core::TensorView& out, const core::TensorView& lse, double output_scale,
                 InstructionSet set = best_instruction_set());

}  // namespace annulus::kernels::host
