// Messages between ranks of a node: MPI libraries copy long ones once, out of the sender's memory, where the system
// lets them.
#pragma once

#include <string>

namespace annulus::comm {

/// Why a process may not read the memory of another one (process_vm_readv), in the system's words; empty: it may, as
/// far as a process can try alone. Containers forbid it that lack the capability SYS_PTRACE.
std::string why_no_single_copy();

/// Before MPI starts: where that is forbidden Open MPI is told to do without, unless the user has chosen. It does not
/// try by itself, and prints a line for every message that it has to copy in another way.
void leave_out_single_copy_where_forbidden();

}  // namespace annulus::comm
