// Tiles of rows in shared memory: 16-byte chunks whose places inside a row are permuted, so that the lanes that read at
// the same time meet different banks. Shared memory has 32 banks of 4 bytes: 8 places for chunks, chunk address mod 8.
//
// Rows by rows (ldmatrix): eight rows, the same chunk. Row r's chunk c lies at place c ^ swizzle(r):
//   rows of 8 chunks (D = 64, 16 bits), r ^ c        rows of 4 chunks (D = 32), c ^ (r / 2 % 4)
//     row 0   0 1 2 3 4 5 6 7                          row 0, 1   0 1 2 3   0 1 2 3
//     row 1   1 0 3 2 5 4 7 6                          row 2, 3   1 0 3 2   1 0 3 2
//     row 2   2 3 0 1 6 7 4 5                          row 4, 5   2 3 0 1   2 3 0 1
//   any column of eight rows meets all eight places.
//
// Number by number, where a matrix of 32- or 64-bit numbers cannot be turned by ldmatrix: four rows, two neighbouring
// chunks. There the swizzle is even: 0, 2, 4, 6.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/machine.hpp"

namespace annulus::kernels::cuda {

inline constexpr int chunk_bytes = 16;

/// How the chunks of a row are permuted.
///   rows        for ldmatrix
///   four_rows   number by number, rows r, r + 1, r + 2, r + 3 at a time
///   even_rows   number by number, rows r, r + 2, r + 4, r + 6 (or the odd ones)
enum class Reading { rows, four_rows, even_rows };

template <int bytes_of_row, Reading reading>
struct SharedRows {
  static constexpr int chunks = bytes_of_row / chunk_bytes;
  static constexpr unsigned period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;  ///< chunks that change places
  static_assert(bytes_of_row % 32 == 0, "a row is a multiple of two chunks");
  static_assert(reading == Reading::rows || period == 8, "number by number: a row is a multiple of 128 bytes");

  KOKKOS_FORCEINLINE_FUNCTION static unsigned swizzle(unsigned row) {
    if constexpr (reading == Reading::rows) return row / (8 / period) % period;
    return 2 * ((reading == Reading::four_rows ? row : row / 2) % 4);
  }
  /// Where chunk `chunk` of row `row` lies in the tile.
  KOKKOS_FORCEINLINE_FUNCTION static Shared at(unsigned row, unsigned chunk) {
    return row * bytes_of_row + (chunk ^ swizzle(row)) * chunk_bytes;
  }
  /// The same of chunk width * group + which (less than `width`) of row first + row, where the compiler knows `group`
  /// and `first`, which does not change the swizzle: most of the address is a constant then, and the different rest
  /// takes few registers.
  template <unsigned width>
  KOKKOS_FORCEINLINE_FUNCTION static Shared at_near(int first, unsigned row, int group, unsigned which) {
    const unsigned chunk = width * unsigned(group), moving = chunk % period, staying = chunk - moving;
    return Shared(first * bytes_of_row) + staying * chunk_bytes +
           (row * bytes_of_row + (((which ^ swizzle(row)) * chunk_bytes) ^ (moving * chunk_bytes)));
  }
};

/// A thread's place in its block. In the 16 x 8 (or 8 x 8) sums of a warp's product it has columns 2 quad, 2 quad + 1
/// of row `group` (and of row group + 8).
struct Lane {
  int warp, lane, group, quad;

  KOKKOS_FORCEINLINE_FUNCTION explicit Lane(int thread)
      : warp(int(unsigned(thread) / warp_size)),
        lane(int(unsigned(thread) % warp_size)),
        group(int(unsigned(lane) / 4)),
        quad(int(unsigned(lane) % 4)) {}
};

}  // namespace annulus::kernels::cuda
