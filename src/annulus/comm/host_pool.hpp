// Host memory of staged messages, kept from message to message: making memory that a GPU can reach takes longer than
// filling it.
#pragma once

#include "annulus/core/copy_queue.hpp"

namespace annulus::comm {

/// `bytes` or more that are free: no message uses them, and no copy of an earlier one. From the thread that owns MPI.
core::HostMemory take_host_memory(core::Index bytes);

/// Gives it back; somebody may have it when that moment of the queue is over.
void keep_host_memory(core::HostMemory memory, core::CopyQueue& queue, core::When until);

/// It must not be used again: an error ended a message, and MPI may still read or write there.
void leave_host_memory(core::HostMemory memory);

/// Bytes in use by messages or their copies, and kept for others.
core::Index kept_host_bytes();

/// Frees what is not in use, or all that was given back when its copies are done. The latter is done of itself before
/// Kokkos ends.
void release_host_memory();
void release_all_host_memory();

}  // namespace annulus::comm
