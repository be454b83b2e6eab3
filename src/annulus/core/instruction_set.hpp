// Vector instruction sets that one binary holds code for, and those of them that this processor has.
#pragma once

#include <string_view>
#include <vector>

namespace annulus::core {

/// baseline: whatever the compiler assumes of every machine of this kind (SSE2 on x86-64, NEON on 64-bit Arm).
enum class InstructionSet { baseline, avx2, avx512 };

std::string_view name_of(InstructionSet set);

/// Those that this processor has, slowest first; baseline always is one. avx2 includes FMA, avx512 the parts F, DQ, BW
/// and VL.
std::vector<InstructionSet> usable_instruction_sets();

/// The last of them.
InstructionSet best_instruction_set();

}  // namespace annulus::core
