// The threads that the host's kernels use.
#pragma once

namespace annulus {

/// The number of threads: Kokkos' number, or fewer if limit_threads() says so.
int threads();
/// From now on all passes of this process use at most `most` threads; `most` is 1 or more.
void limit_threads(int most);

}  // namespace annulus
