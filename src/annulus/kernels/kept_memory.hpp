// Memory that the kernels keep from call to call.
#pragma once

namespace annulus::kernels {

/// Frees the memory for panels that this process's threads keep, each as much as its largest task so far needed, and
/// device memory kept for work lists, partial states and destroyed buffers. Later kernel calls allocate again only what
/// they need. Call this only between kernel calls.
void release_kept_memory();

}  // namespace annulus::kernels
