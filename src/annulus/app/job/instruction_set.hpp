// Ranks on machines with different instruction sets compute with the best one that all of them have: bits differ
// between sets, and rows are dealt evenly, so that the slowest machine sets the pace in any case.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Bounds what this rank uses, "baseline", "avx2" or "avx512": to compare them, and to reproduce what a lesser machine
/// computed.
inline constexpr const char* instruction_set_variable = "ANNULUS_INSTRUCTION_SET";

/// Agrees on the instruction set of the kernels, which use it from then on. Returns why it is not the best of some
/// rank's: "rank 3 has no avx512"; empty: it is everybody's best. Collective. Throws Error(usage) on all ranks where
/// the variable names no set.
std::string agree_on_instruction_set(const comm::Communicator& comm);

}  // namespace annulus::app
