// Where things lie in the shared memory of a forward block. K and V have two stages, and the rows where a tile's keys
// are found three tables, so that one barrier a tile is enough:
//
//   tile      i                  i + 1                      i + 2
//   stage     i % 2, multiplied  (i + 1) % 2, being copied
//   table     i % 3, for masks   (i + 1) % 3, for copies    (i + 2) % 3, being looked up
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/types.hpp"
#include "annulus/kernels/cuda/machine.hpp"
#include "annulus/kernels/cuda/tuning.hpp"

namespace annulus::kernels::cuda {

using core::Index;

template <class Engine, TileSizes sizes>
struct ForwardMemory {
  static constexpr int rows = sizes.warps * sizes.row_tiles * Engine::rows;
  static constexpr int row_bytes = sizes.columns * int(sizeof(typename Engine::Stored));
  static constexpr int tables = 3;
  static constexpr Shared queries = 0;
  static constexpr Shared stage_bytes = sizes.keys * row_bytes;
  static constexpr Shared keys = rows * row_bytes;               // two stages
  static constexpr Shared values = keys + 2 * stage_bytes;       // two stages
  static constexpr Shared query_rows = values + 2 * stage_bytes;  // stored row and t of each query
  static constexpr Shared table_bytes = sizes.keys * 3 * int(sizeof(Index));
  static constexpr Shared key_rows = query_rows + rows * 2 * int(sizeof(Index));
  static constexpr int bytes = int(key_rows) + tables * int(table_bytes);

  KOKKOS_FORCEINLINE_FUNCTION static Shared query_row(int i) { return query_rows + Shared(i * int(sizeof(Index))); }
  KOKKOS_FORCEINLINE_FUNCTION static Shared query_t(int i) { return query_row(rows + i); }
  /// Where K's row, V's row and t of key j of tile `tile` stand: offsets in numbers from row 0.
  KOKKOS_FORCEINLINE_FUNCTION static Shared key_from(int tile, int j) {
    return key_rows + Shared(tile % tables) * table_bytes + Shared(j * int(sizeof(Index)));
  }
  KOKKOS_FORCEINLINE_FUNCTION static Shared value_from(int tile, int j) { return key_from(tile, sizes.keys + j); }
  KOKKOS_FORCEINLINE_FUNCTION static Shared key_t(int tile, int j) { return key_from(tile, 2 * sizes.keys + j); }
};

}  // namespace annulus::kernels::cuda
