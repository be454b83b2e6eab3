// Keeps the host memory of staged messages for later messages, because allocating memory that a GPU can access takes
// longer than filling it.
#pragma once

#include "annulus/core/copy_queue.hpp"

namespace annulus::comm {

/// Returns memory of at least `bytes` bytes that no message and no copy uses. Only the thread that owns MPI may call
/// the functions of this file.
core::HostMemory take_host_memory(core::Index bytes);

/// Gives memory back to the pool. The pool may hand the memory out again as soon as queue.is_over(until).
void keep_host_memory(core::HostMemory memory, core::CopyQueue& queue, core::When until);

/// Gives back memory that must neither be used again nor be freed, because after an error MPI may still read or write
/// it.
void abandon_host_memory(core::HostMemory memory);

/// Returns the bytes of all memory of the pool: in use by messages and their copies, or kept for later messages.
core::Index kept_host_bytes();

/// release_host_memory() frees kept memory that no copy uses. release_all_host_memory() waits for the copies and frees
/// all kept memory; Kokkos::finalize() calls it.
void release_host_memory();
void release_all_host_memory();

}  // namespace annulus::comm
