// The layout of a forward block's shared memory. There are two stages for tiles of K and V, and two tables for the
// addresses of a tile's rows of K and V. So one barrier per tile is enough:
//
//   tile      i                  i + 1                      i + 2
//   stage     i % 2, multiplied  (i + 1) % 2, being copied
//   table                        (i + 1) % 2, for copies    i % 2, being looked up
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/forward_task.hpp"
#include "annulus/kernels/cuda/machine.hpp"
#include "annulus/kernels/cuda/tuning.hpp"
#include "annulus/kernels/cuda/walk.hpp"

namespace annulus::kernels::cuda {

template <class Engine, TileSizes sizes>
struct ForwardMemory {
  static constexpr int rows = sizes.warps * sizes.row_tiles * Engine::rows;
  static constexpr int row_bytes = sizes.columns * int(sizeof(typename Engine::Stored));
  static constexpr Shared queries = 0;
  static constexpr Shared stage_bytes = sizes.keys * row_bytes;
  static constexpr Shared keys = rows * row_bytes;                // two stages
  static constexpr Shared values = keys + 2 * stage_bytes;        // two stages
  static constexpr Shared query_rows = values + 2 * stage_bytes;  // stored row, begin and end of keys of each query
  static constexpr Shared table_bytes = sizes.keys * 2 * int(sizeof(Index));
  static constexpr Shared key_rows = query_rows + rows * 3 * int(sizeof(Index));
  static constexpr Shared facts = key_rows + 2 * table_bytes;
  static constexpr Shared tiles = facts + int(sizeof(ForwardFacts));
  static constexpr int bytes = int(tiles) + int(sizeof(Tiles<sizes.keys>));

  KOKKOS_FORCEINLINE_FUNCTION static Shared query_row(int i) { return query_rows + Shared(i * int(sizeof(Index))); }
  /// Where begin and end of the positions that query i sees are stored. Positions count from ForwardFacts::first_key.
  KOKKOS_FORCEINLINE_FUNCTION static Shared seen_begin(int i) { return query_row(rows + i); }
  KOKKOS_FORCEINLINE_FUNCTION static Shared seen_end(int i) { return query_row(2 * rows + i); }
  /// Where the address of the row of K of key j in tile number `tile` is stored. value_from() is the same for V.
  KOKKOS_FORCEINLINE_FUNCTION static Shared key_from(int tile, int j) {
    return key_rows + Shared(tile % 2) * table_bytes + Shared(j * int(sizeof(Index)));
  }
  KOKKOS_FORCEINLINE_FUNCTION static Shared value_from(int tile, int j) { return key_from(tile, sizes.keys + j); }
};

}  // namespace annulus::kernels::cuda
