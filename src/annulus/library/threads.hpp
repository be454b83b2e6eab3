// Threads on which the host's kernels run.
#pragma once

namespace annulus {

/// Those of Kokkos, or as few as limit_threads() says.
int threads();
/// From now on no more than `most`, 1 or more, for all passes of this process.
void limit_threads(int most);

}  // namespace annulus
