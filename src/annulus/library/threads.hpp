// The threads that the host's kernels use.
#pragma once

namespace annulus {

/// Kokkos can run at most this many OpenMP threads, and does not check whether a caller asks for more.
inline constexpr int most_threads = 512;
/// Returns how many threads run kernels: Kokkos' number, or fewer if limit_threads() has set a lower limit.
int threads();
/// From now on at most `most` threads (1 or more) run the attention kernels and reference(); short loops may use more.
void limit_threads(int most);

}  // namespace annulus
