// Vector instruction sets that one binary holds code for, and those of them that this processor has.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace annulus::core {

/// baseline: whatever the compiler assumes of every machine of this kind (SSE2 on x86-64, NEON on 64-bit Arm).
enum class InstructionSet { baseline, avx2, avx512 };

std::string_view name_of(InstructionSet set);

/// Those that this processor has, slowest first; baseline always is one. avx2 includes FMA, avx512 the parts F, DQ, BW
/// and VL.
std::vector<InstructionSet> usable_instruction_sets();

/// The last of them that limit_instruction_set() allows: what is used unless another one is asked for.
InstructionSet best_instruction_set();

/// From now on no better one than `most` is used, by any thread; for jobs whose ranks have to use the same. Before that
/// there is no limit.
void limit_instruction_set(InstructionSet most);

/// The set of this name, if there is one.
std::optional<InstructionSet> instruction_set_called(std::string_view name);

}  // namespace annulus::core
