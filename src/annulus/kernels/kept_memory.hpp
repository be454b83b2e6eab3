// Memory that the kernels keep from call to call.
#pragma once

namespace annulus::kernels {

/// Frees the memory for panels that this process's threads keep (each thread keeps as much as its largest task so far
/// needed), and the device memory that device/kept_lists.hpp and core/free_blocks.hpp keep. Later kernel calls allocate
/// only as much as they need. Call this only between kernel calls.
void release_kept_memory();

}  // namespace annulus::kernels
