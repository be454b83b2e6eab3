// Names the instruction sets for which this program has code, and finds out which of them this processor has.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace annulus::core {

/// baseline: what every processor of this architecture has (SSE2 on x86-64, NEON on 64-bit Arm).
/// avx512_bf16: avx512 and instructions for products of bfloat16. avx512 and avx512_bf16 compute the same bits.
/// amx: products of bfloat16 on Intel's matrix units, which give other bits. All other work uses vectors_beside(amx). A
/// processor without matrix units computes the bits of amx with vectors, many times slower.
enum class InstructionSet { baseline, avx2, avx512, avx512_bf16, amx };

inline constexpr std::array all_instruction_sets{InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512,
                                                 InstructionSet::avx512_bf16, InstructionSet::amx};

/// The environment variable that limits a process to "baseline", "avx2", "avx512", "avx512_bf16" or "amx". Users set it
/// to compare instruction sets, or to get the same bits as on a machine with fewer instructions.
inline constexpr const char* instruction_set_variable = "ANNULUS_INSTRUCTION_SET";

std::string_view name_of(InstructionSet set);

/// Returns the sets that this processor can use. baseline is always the first set and amx always the last; the sets
/// between them ascend as in InstructionSet. avx2 includes FMA; avx512 includes the parts F, DQ, BW and VL.
std::vector<InstructionSet> usable_instruction_sets();

/// Returns the limit that holds if neither the user nor limit_instruction_set() has set one: amx if this process may
/// use matrix units (core/amx.hpp); otherwise avx512 on Intel's processors, and avx512_bf16 on others. On Intel's
/// processors the instruction of avx512_bf16 for products, VDPBF16PS, takes twice as long as the two multiply-adds that
/// it replaces (measured on Granite Rapids: 120 GFLOP/s against 240).
InstructionSet preferred_limit();

/// For amx, returns the vector set that does the work that matrix units do not do. For any other set, returns the set
/// itself.
InstructionSet vectors_beside(InstructionSet set);

/// Returns the set that is used by default: the last usable set up to the limit. limit_instruction_set() sets the
/// limit. Before its first call the limit is the value of instruction_set_variable, or preferred_limit() if the
/// variable is not set. Throws Error(usage) if the variable's value is not the name of a set.
InstructionSet best_instruction_set();

/// True if this process computes on matrix units: amx is the best set, and the process may use the units. If amx is the
/// best set, but the process may not use the units, it computes the same bits with vectors, slowly.
bool has_matrix_units();

/// From now on no thread uses a set that comes after `most` in InstructionSet. Jobs call this if all their ranks must
/// use the same set.
void limit_instruction_set(InstructionSet most);

/// Returns the set of this name, if there is one.
std::optional<InstructionSet> instruction_set_called(std::string_view name);

}  // namespace annulus::core
