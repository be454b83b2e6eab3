// Long messages between ranks of a node: MPI libraries copy these once, directly from the sender's memory, if the
// system permits it.
#pragma once

#include <string>

namespace annulus::comm {

/// Why a process may not read another process's memory (process_vm_readv), in the system's words; empty if it may, as
/// far as one process can test it. Containers without the capability SYS_PTRACE forbid it.
std::string why_no_single_copy();

/// Call this before MPI starts: where such reads are forbidden it switches them off in Open MPI, unless the user has
/// set this. Open MPI does not test it, and prints a line for every message that it must copy in another way.
void leave_out_single_copy_where_forbidden();

}  // namespace annulus::comm
