// If the system permits it, an MPI library copies a long message between two ranks of a node only once, directly from
// the sender's memory.
#pragma once

#include <string>

namespace annulus::comm {

/// Returns why a process may not read another process's memory (process_vm_readv), as the system's error text; empty if
/// it may. The test reads this process's own memory. Containers without the capability SYS_PTRACE also forbid this.
std::string why_no_single_copy();

/// Call this before MPI starts. If a process may not read another process's memory, this function switches such reads
/// off in Open MPI, unless the user has set this option. Otherwise Open MPI would try such a read for every message,
/// print a line each time, and then copy the message in another way.
void leave_out_single_copy_where_forbidden();

}  // namespace annulus::comm
