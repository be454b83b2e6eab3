// Long messages between ranks of a node: MPI libraries copy these once, directly from the sender's memory, if the
// system permits it.
#pragma once

#include <string>

namespace annulus::comm {

/// Why a process may not read another process's memory (process_vm_readv), in the system's words; empty if it may. The
/// test reads this process's own memory. Containers without the capability SYS_PTRACE forbid such reads.
std::string why_no_single_copy();

/// Call this before MPI starts: where such reads are forbidden, it switches them off in Open MPI, unless the user has
/// set this option. Open MPI itself would try them, and print a line for every message that it then copies otherwise.
void leave_out_single_copy_where_forbidden();

}  // namespace annulus::comm
