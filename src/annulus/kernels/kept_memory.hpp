// Memory that the kernels keep from call to call.
#pragma once

namespace annulus::kernels {

/// Frees the panels that this process's threads keep, which are as large as the largest task so far, and device memory
/// kept for work lists, partial states and destroyed buffers. Afterwards only what later kernel calls need is kept.
/// Call it only between kernel calls.
void release_kept_memory();

}  // namespace annulus::kernels
