// The numbers with which the device algorithm runs, for each kind of execution space.
//
//                    GPU                                 host threads
//   team             128 threads                         1 thread (tests: 4)
//   tile             32 rows that the team owns meet     64 rows meet 64
//                    64 of the other side
//   chunk            64 numbers of a head                128: so threads wait for each other less often
//   depth            128 bytes of a row at a time: 32    1024 bytes
//                    float, 16 double
//   block of a       4 x 4 numbers: 128 blocks           4 x 8 numbers
//   thread           of scores
//
// How many of a GPU's 128 threads have work, in float, whatever the storage type:
//   head size              32         64    80              96              128    256
//   scores                 128        128   128             128             128    128
//   sums of chunks         64         128   128 and 32      128 and 64      128    128
// In double, twice as many threads compute the last chunk, each with half a block. If scratch memory held whole rows,
// tiles of 32 x 64 would fit only at D = 64 in float: 64 threads would compute scores at D = 128, and 16 at D = 256.
//
// On host threads the algorithm exists for tests; the host back end is several times as fast.
#pragma once

#include <Kokkos_Core.hpp>
#include <limits>

#include "annulus/core/types.hpp"

namespace annulus::kernels::device {

/// Number of comb indices in a block of query rows (GradientViews). The terms of a block are added up before they join
/// a key's sum. A block is three tiles of queries of one head. This number changes the bits of results.
inline constexpr core::Index sum_rows = 192;

/// GPUs. A team takes 26 kB of scratch memory in float, 35 kB in double; on CUDA, Kokkos offers 40 kB.
struct GpuTuning {
  static constexpr int team_size = 128;  ///< at least
  static constexpr int rows = 32;        ///< rows that a team owns (forward: queries)
  static constexpr int met = 64;         ///< rows of the other side at a time
  static constexpr int columns = 64;     ///< numbers of a head whose sums are made at a time: a chunk
  static constexpr int depth_bytes = 128;
  static constexpr int block_rows = 4;
  static constexpr int block_columns = 4;
  static constexpr int row_parts = 4;  ///< threads that compute the softmax of one row together
  /// Bytes of sums that a thread may keep in registers for all chunks of a head: 64 floats, four blocks of 4 x 4.
  static constexpr int kept_bytes = 256;
  /// Everything in one launch: the host polls while a GPU works, and smaller launches would leave multiprocessors idle.
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
  /// Work between two calls of poll, some milliseconds at 10 GFLOP/s per thread.
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
