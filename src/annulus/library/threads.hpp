// The threads that the host's kernels use.
#pragma once

namespace annulus {

/// Kokkos can run so many OpenMP threads, and does not check that more are asked for.
inline constexpr int most_threads = 512;
/// The number of threads: Kokkos' number, or fewer if limit_threads() says so.
int threads();
/// From now on all passes of this process use at most `most` threads; `most` is 1 or more.
void limit_threads(int most);

}  // namespace annulus
