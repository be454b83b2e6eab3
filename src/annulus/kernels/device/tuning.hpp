// The numbers the device algorithm runs with, per kind of execution space. Numbers only.
//
//                    GPU                                host threads
//   team             128 threads                        1 thread (tests: 4)
//   block of a       4 rows x 4 columns, columns a      4 rows x 8 columns, side by side in memory
//   thread           stride apart: the 32 threads of
//                    a warp read neighbouring words
//   pad              1: rows of a transposed tile start 0: a single thread knows no memory banks
//                    in different memory banks
//   tile             as large as scratch memory allows  one size, for the second-level cache
//
// nvcc for sm_90 gives the forward kernel 72 registers in float and 128 in double, without spills, so that 7 and 4
// teams fit on a multiprocessor as far as registers go (tools/cuda_resources.txt has every kernel's). On host threads
// the algorithm is there to be tested; the host back end is several times as fast.
#pragma once

#include <Kokkos_Core.hpp>
#include <limits>

namespace annulus::kernels::device {

/// Rows that a team owns (forward: queries), and rows of the other side that it meets at a time; multiples of the
/// block.
struct TileSize {
  int owned;
  int met;
};

/// Host spaces: Serial, OpenMP, Threads.
struct HostTuning {
  static constexpr int team_size = 1;
  static constexpr int block_rows = 4;
  static constexpr int block_columns = 8;
  static constexpr bool columns_side_by_side = true;
  static constexpr int pad = 0;
  static constexpr int row_parts = 1;  ///< threads that share the softmax of one row
  /// In order of preference.
  static constexpr TileSize tiles[] = {{64, 64}};
  static constexpr TileSize backward_tiles[] = {{64, 64}};
  /// Work between two calls of poll, some milliseconds at 10 GFLOP/s per thread.
  static double flops_per_launch(int concurrency) { return 5e7 * concurrency; }
};

/// GPUs. 32 x 64 keeps 128 threads busy with one block each, in the scores and (D = 64) in the output alike; it takes
/// 35 kB at D = 64 in float, of the 40 kB that Kokkos hands out on CUDA. Larger D or double take the smaller tiles.
struct GpuTuning {
  static constexpr int team_size = 128;
  static constexpr int block_rows = 4;
  static constexpr int block_columns = 4;
  static constexpr bool columns_side_by_side = false;
  static constexpr int pad = 1;
  static constexpr int row_parts = 4;
  static constexpr TileSize tiles[] = {{32, 64}, {32, 32}, {16, 32}, {16, 16}, {8, 16}, {8, 8}};
  static constexpr TileSize backward_tiles[] = {{32, 32}, {16, 32}, {16, 16}, {8, 16}, {8, 8}, {4, 8}};
  /// All at once: the host polls while a GPU works, and a part of the work would leave multiprocessors idle.
  static double flops_per_launch(int /*concurrency*/) { return std::numeric_limits<double>::max(); }
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
