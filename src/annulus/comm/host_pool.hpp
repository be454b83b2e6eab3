// Keeps the host memory of staged messages for later messages, because allocating memory that a GPU can access takes
// longer than filling it.
#pragma once

#include "annulus/core/copy_queue.hpp"

namespace annulus::comm {

/// Memory of at least `bytes` that no message and no copy uses. Only the thread that owns MPI may call these functions.
core::HostMemory take_host_memory(core::Index bytes);

/// Gives memory back; it may be taken again when the moment `until` of `queue` is over.
void keep_host_memory(core::HostMemory memory, core::CopyQueue& queue, core::When until);

/// Gives memory back that must never be used again nor freed, because after an error MPI may still read or write it.
void abandon_host_memory(core::HostMemory memory);

/// Bytes of all memory of the pool: in use by messages and their copies, or kept for later messages.
core::Index kept_host_bytes();

/// The first function frees kept memory that no copy uses; the second waits for the copies and frees all kept memory.
/// The second is called before Kokkos ends.
void release_host_memory();
void release_all_host_memory();

}  // namespace annulus::comm
