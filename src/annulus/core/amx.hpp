// Whether this process may use AMX, the matrix units of Intel processors since Sapphire Rapids, for bfloat16.
#pragma once

#include <string_view>

namespace annulus::core {

/// The reason why this process may not use AMX; empty if it may. The first call asks the system for permission, for the
/// whole process: Linux (5.16 and later) gives the 8 KiB of tile registers only to processes that ask. The reasons are
/// "this processor has no AMX for bfloat16" and "the system does not let this process use AMX".
std::string_view why_no_amx();

inline bool has_amx() { return why_no_amx().empty(); }

/// Whether the processor has AMX; the system may still refuse to let this process use it.
bool processor_has_amx();

}  // namespace annulus::core
