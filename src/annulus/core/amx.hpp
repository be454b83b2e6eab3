// Whether this process may use AMX, the matrix units of Intel processors since Sapphire Rapids, for bfloat16.
#pragma once

#include <string_view>

namespace annulus::core {

/// Why it may not; empty: it may. Asks the system for permission when first called, once for the process: Linux gives
/// the 8 KiB of tile registers only to processes that ask (5.16 and later).
/// "this processor has no AMX for bfloat16", "the system does not let this process use AMX".
std::string_view why_no_amx();

inline bool has_amx() { return why_no_amx().empty(); }

/// Whether the processor has AMX, which the system may refuse all the same.
bool processor_has_amx();

}  // namespace annulus::core
