// Vector instruction sets that one binary holds code for, and those of them that this processor has.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace annulus::core {

/// baseline: whatever the compiler assumes of every machine of this kind (SSE2 on x86-64, NEON on 64-bit Arm).
/// avx512_bf16: avx512 with products of bfloat16; what both compute has the same bits.
/// amx: products of bfloat16 by Intel's matrix units, with bits of their own; the rest as vectors_beside() has it. A
/// processor without the units computes the same bits with vectors, many times slower.
enum class InstructionSet { baseline, avx2, avx512, avx512_bf16, amx };

inline constexpr std::array all_instruction_sets{InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512,
                                                 InstructionSet::avx512_bf16, InstructionSet::amx};

std::string_view name_of(InstructionSet set);

/// Those that can be used on this processor, slowest first but for amx, which always is the last one; baseline always
/// is one, too. avx2 includes FMA, avx512 the parts F, DQ, BW and VL.
std::vector<InstructionSet> usable_instruction_sets();

/// What is used by itself at most: amx where this process has the matrix units (core/amx.hpp). Otherwise avx512 on
/// Intel's processors, which take twice as long for VDPBF16PS as for the two multiply-adds that it stands for (measured
/// on Granite Rapids: 120 GFLOP/s beside 240).
InstructionSet preferred_limit();

/// The set of vectors that computes what the matrix units do not, on this machine; other sets than amx are their own.
InstructionSet vectors_beside(InstructionSet set);

/// The last of them that limit_instruction_set() allows: what is used unless another one is asked for.
InstructionSet best_instruction_set();

/// From now on no better one than `most` is used, by any thread; for jobs whose ranks have to use the same. Before that
/// the limit is preferred_limit().
void limit_instruction_set(InstructionSet most);

/// The set of this name, if there is one.
std::optional<InstructionSet> instruction_set_called(std::string_view name);

}  // namespace annulus::core
