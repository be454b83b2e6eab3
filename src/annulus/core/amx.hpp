// Finds out if this process may use AMX, the matrix units of Intel processors since Sapphire Rapids, for bfloat16.
#pragma once

#include <string_view>

namespace annulus::core {

/// Returns why this process may not use AMX, or an empty text if it may. The first call asks the system for permission
/// for the whole process, because Linux (5.16 and later) gives the 8 KiB of tile registers only to processes that ask.
/// The reasons are "this processor has no AMX for bfloat16" and "the system does not let this process use AMX".
std::string_view why_no_amx();

inline bool has_amx() { return why_no_amx().empty(); }

/// True if the processor has AMX and the AVX-512 instructions of our kernels. The system may still refuse AMX.
bool processor_has_amx();

}  // namespace annulus::core
