// Ranks on machines with different instruction sets compute with the best one that all of them have: bits differ
// between sets, and rows are dealt evenly, so that the slowest machine sets the pace in any case.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Limits this rank to "baseline", "avx2", "avx512", "avx512_bf16" or "amx": to compare them, and to get the same bits
/// as on a machine with fewer instructions.
inline constexpr const char* instruction_set_variable = "ANNULUS_INSTRUCTION_SET";

/// Agrees on the instruction set of the kernels, which use it from then on. Returns why some rank does not use its best
/// one: "rank 3 has no avx512"; empty: every rank uses its best. Collective. Throws Error(usage) on all ranks if the
/// variable of any rank names no set.
std::string agree_on_instruction_set(const comm::Communicator& comm);

}  // namespace annulus::app
