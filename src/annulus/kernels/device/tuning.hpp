// Sizes of teams and tiles of the device algorithm, for each kind of execution space.
//
//                    GPU                                 host threads
//   team             128 threads                         1 thread (tests: 4)
//   tile             32 rows that the team owns, 64      64 rows, 64 rows
//                    rows of the other side
//   chunk            64 numbers of a head                128, so there are fewer barriers
//   depth            128 bytes of a row at a time:       1024 bytes
//                    32 floats or 16 doubles
//   block of a       4 x 4 numbers, so a tile has        4 x 8 numbers
//   thread           128 blocks of scores
//
// How many of a team's 128 threads on a GPU have work if T, the type of sums, is float:
//   head size              32         64    80              96              128    256
//   scores                 128        128   128             128             128    128
//   sums of chunks         64         128   128 and 32      128 and 64      128    128
// In double, twice as many threads compute the chunks of 16 and 32 numbers, each with half a block. Scratch memory
// holds only `depth` numbers of a row. If it held whole rows, tiles of 32 x 64 would fit only up to D = 64 in float.
// With smaller tiles, only 64 threads would compute scores at D = 128, and 16 at D = 256.
//
// On host threads the algorithm exists for tests; the host back end is several times as fast.
#pragma once

#include <Kokkos_Core.hpp>
#include <limits>

#include "annulus/core/types.hpp"

namespace annulus::kernels::device {

/// Number of comb indices in a block of query rows (GradientViews). The terms of a block are added up first, then their
/// sum is added to a key's sum. With one head, a block is three tiles of queries. This number changes bits of results.
inline constexpr core::Index sum_rows = 192;

/// GPUs. A team takes 26 kB of scratch memory in float, 35 kB in double; on CUDA, Kokkos offers 40 kB.
struct GpuTuning {
  static constexpr int team_size = 128;    ///< threads; a team may have more
  static constexpr int rows = 32;          ///< rows that a team owns (forward: queries)
  static constexpr int met = 64;           ///< rows of the other side that are worked on at a time
  static constexpr int columns = 64;       ///< a chunk: numbers of a head whose sums are made at a time
  static constexpr int depth_bytes = 128;  ///< bytes of a row that scratch memory holds at a time
  static constexpr int block_rows = 4;
  static constexpr int block_columns = 4;
  static constexpr int row_parts = 4;  ///< threads that compute the softmax of one row together
  /// Bytes of sums that a thread may keep in registers for all chunks of a head: 64 floats, four blocks of 4 x 4.
  static constexpr int kept_bytes = 256;
  /// No limit: one launch has all teams, because the host polls while a GPU works, and smaller launches would leave
  /// multiprocessors idle.
  static double flops_per_launch(int /*concurrency*/) { return std::numeric_limits<double>::max(); }
};

/// Host spaces: Serial, OpenMP, Threads.
struct HostTuning : GpuTuning {
  static constexpr int team_size = 1;
  static constexpr int rows = 64;
  static constexpr int columns = 128;
  static constexpr int depth_bytes = 1024;
  static constexpr int block_columns = 8;
  static constexpr int row_parts = 1;
  static constexpr int kept_bytes = 0;
  /// Work between two calls of poll. It takes 5 milliseconds if each thread computes 10 GFLOP/s.
  static double flops_per_launch(int concurrency) { return 5e7 * concurrency; }
};

template <class ExecSpace>
struct TuningOf {
  using type = HostTuning;
};
#ifdef KOKKOS_ENABLE_CUDA
template <>
struct TuningOf<Kokkos::Cuda> {
  using type = GpuTuning;
};
#endif
#ifdef KOKKOS_ENABLE_HIP
template <>
struct TuningOf<Kokkos::HIP> {
  using type = GpuTuning;
};
#endif

}  // namespace annulus::kernels::device
