// Memory that the kernels keep from call to call.
#pragma once

namespace annulus::kernels {

/// Gives back the panels that this process's threads keep, which are as large as the largest task met so far, and the
/// device's memory of work lists, partial states and buffers that are gone: what the next call takes is then its own.
/// Between calls.
void release_kept_memory();

}  // namespace annulus::kernels
