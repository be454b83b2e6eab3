// The vector instruction sets for which this program has code, and which of them this processor has.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace annulus::core {

/// baseline: what the compiler assumes of every machine of this kind (SSE2 on x86-64, NEON on 64-bit Arm).
/// avx512_bf16: avx512 plus products of bfloat16; both sets compute the same bits.
/// amx: products of bfloat16 on Intel's matrix units, which give other bits; all other work uses vectors_beside(amx). A
/// processor without matrix units computes the same bits with vectors, many times slower.
enum class InstructionSet { baseline, avx2, avx512, avx512_bf16, amx };

inline constexpr std::array all_instruction_sets{InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512,
                                                 InstructionSet::avx512_bf16, InstructionSet::amx};

std::string_view name_of(InstructionSet set);

/// The sets that this processor can use, slowest first, except that amx is always the last entry; baseline is always
/// one of them. avx2 includes FMA; avx512 includes the parts F, DQ, BW and VL.
std::vector<InstructionSet> usable_instruction_sets();

/// The limit before limit_instruction_set() is called: amx if this process has the matrix units (core/amx.hpp);
/// otherwise avx512 on Intel's processors, where VDPBF16PS takes twice as long as the two multiply-adds that it
/// replaces (measured on Granite Rapids: 120 GFLOP/s against 240); avx512_bf16 on other processors.
InstructionSet preferred_limit();

/// The vector set that computes, on this machine, what matrix units do not. Every set except amx returns itself.
InstructionSet vectors_beside(InstructionSet set);

/// The default: the last usable set that limit_instruction_set() allows.
InstructionSet best_instruction_set();

/// Whether this process computes on matrix units: amx is the best set, and the process may use the units. Without the
/// units amx computes the same bits with vectors, slowly.
bool has_matrix_units();

/// From now on no thread uses a set that is better than `most`. This is for jobs whose ranks must all use the same set.
/// Before the first call the limit is preferred_limit().
void limit_instruction_set(InstructionSet most);

/// The set of this name, if there is one.
std::optional<InstructionSet> instruction_set_called(std::string_view name);

}  // namespace annulus::core
