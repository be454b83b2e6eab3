// Memory that the kernels keep from call to call.
#pragma once

namespace annulus::kernels {

/// Frees the panels that this process's threads keep, which are as large as the largest task so far, and device memory
/// kept for work lists, partial states and destroyed buffers. Later kernel calls allocate again only what they need.
/// Call it only between kernel calls.
void release_kept_memory();

}  // namespace annulus::kernels
