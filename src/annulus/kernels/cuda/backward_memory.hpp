// The arguments of blocks of the backward pass, and the layout of their shared memory.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/cuda/tile.hpp"
#include "annulus/kernels/cuda/tuning.hpp"
#include "annulus/kernels/device/work.hpp"

namespace annulus::kernels::cuda {

using core::Index;

/// What a block adds to: dq of the queries that it owns, or dk and dv of the keys that it owns.
enum class Adds { dq, dk_and_dv };

template <class Sum>
struct BackwardTask {
  device::DeviceWorkView work;
  BackwardOperands operands;
  GradientViews gradients;
  Sum score_factor;  ///< scale * log2(e)
  int head_dim;
};

/// What a block keeps in shared memory about its work, to save registers.
struct BackwardFacts {
  core::WorkItem item;
  Index batch;
  Index first;  ///< lowest position of the rows met
};

/// The numbers of a query that turn its S and W into P and dS.
template <class Sum>
struct QueryNumbers {
  Sum shift;   ///< +inf where the row saw no key
  Sum factor;  ///< 0 for such a row
  Sum delta;
};

/// in_pairs: two warps have the same rows, and one sends P to the other through shared memory (backward_block.hpp).
/// met_numbers has room for three tiles, because a warp may store the numbers of tile i + 2 while other warps still
/// read those of tile i.
template <class Engine, TileSizes sizes, Adds adds>
struct BackwardMemory {
  using Sum = typename Engine::Sum;
  using Sums = typename Engine::Sums;
  static constexpr bool in_pairs = adds != Adds::dq && sizes.columns > most_columns_of_both;
  static constexpr int numbers_bytes = int(sizeof(QueryNumbers<Sum>));
  static constexpr int warps_of_rows = in_pairs ? 2 : 1;
  static constexpr int rows = sizes.warps / warps_of_rows * sizes.row_tiles * Engine::rows;
  static constexpr int met = sizes.keys;
  static constexpr int row_bytes = sizes.columns * int(sizeof(typename Engine::Stored));
  static constexpr Shared own = 0;  // X, X'
  static constexpr Shared own_bytes = rows * row_bytes;
  static constexpr Shared stages = 2 * own_bytes;  // Y, Y' of two tiles
  static constexpr Shared stage_bytes = met * row_bytes;
  static constexpr Shared own_from = stages + 4 * stage_bytes;  // per row: addresses in X, X'; begin, end of rows met
  static constexpr Shared met_from = own_from + rows * 4 * 8;   // per row: addresses in Y, Y'; two tiles
  static constexpr Shared met_numbers = met_from + 2 * met * 2 * 8;  // QueryNumbers, of three tiles
  static constexpr Shared facts = met_numbers + (3 * met * numbers_bytes + 15) / 16 * 16;
  static constexpr Shared probabilities = (facts + int(sizeof(BackwardFacts)) + 15) / 16 * 16;  // P of one tile
  static constexpr int halves = sizes.row_tiles * met / 8;  // how many halves of Sums (8 columns each) a lane has of P
  static constexpr int bytes =
      int(probabilities) + (in_pairs ? sizes.warps / 2 * halves * warp_size * int(sizeof(Sums) / 2) : 0);

  /// The first owned row of a warp's row tile r.
  KOKKOS_FORCEINLINE_FUNCTION static int first_row(const Lane& lane, int r) {
    return int(unsigned(lane.warp) / warps_of_rows * sizes.row_tiles + unsigned(r)) * Engine::rows;
  }

  static_assert(sizes.warps % warps_of_rows == 0, "warps are in pairs");
  static_assert(probabilities % 16 == 0, "they are put and taken 16 bytes at a time");

  KOKKOS_FORCEINLINE_FUNCTION static Shared own_table(int which, int i) {
    return own_from + Shared((which * rows + i) * 8);
  }
  KOKKOS_FORCEINLINE_FUNCTION static Shared met_table(int tile, int which, int j) {
    return met_from + Shared(((tile % 2 * 2 + which) * met + j) * 8);
  }
  KOKKOS_FORCEINLINE_FUNCTION static Shared stage(int tile, int which) {
    return stages + Shared(tile % 2 * 2 + which) * stage_bytes;
  }
  KOKKOS_FORCEINLINE_FUNCTION static Shared numbers(int tile, int j) {
    return met_numbers + Shared((tile % 3 * met + j) * numbers_bytes);
  }
  /// Returns where the lane's half of Sums number `half` of P is. The same lane of the pair's other warp reads it.
  KOKKOS_FORCEINLINE_FUNCTION static Shared probabilities_of(const Lane& lane, int half) {
    const unsigned pair = unsigned(lane.warp) / 2;
    return probabilities + ((pair * halves + unsigned(half)) * warp_size + unsigned(lane.lane)) * int(sizeof(Sums) / 2);
  }
};

}  // namespace annulus::kernels::cuda
