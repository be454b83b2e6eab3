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
// chunks, the first of an even number. Every second row (0, 2, 4, 6 or 1, 3, 5, 7) meets all places in the order above,
// too. Where also four rows in a row are read so (64-bit), the swizzle is
//   row         0 1 2 3 4 5 6 7
//   swizzle     0 2 4 6 2 0 6 4
// so that rows 0-3, 4-7, 0 2 4 6 and 1 3 5 7 have all four even ones each.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/machine.hpp"

namespace annulus::kernels::cuda {

inline constexpr int chunk_bytes = 16;

/// How the chunks of a row are permuted.
///   rows      for ldmatrix, and, where rows are a multiple of 128 bytes, number by number every second of eight rows
///   numbers   number by number, four rows in a row or every second one
enum class Reading { rows, numbers };

template <int bytes_of_row, Reading reading>
struct SharedRows {
  static constexpr int chunks = bytes_of_row / chunk_bytes;
  static constexpr unsigned period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;  ///< chunks that change places
  static_assert(bytes_of_row % 32 == 0, "a row is a multiple of two chunks");
  static_assert(reading == Reading::rows || period == 8, "number by number: a row is a multiple of 128 bytes");

  KOKKOS_FORCEINLINE_FUNCTION static unsigned swizzle(unsigned row) {
    if constexpr (reading == Reading::rows) return row / (8 / period) % period;
    return 2 * (row % 4 ^ row / 4 % 2);
  }
  /// Where chunk `chunk` of row `row` lies in the tile.
  KOKKOS_FORCEINLINE_FUNCTION static Shared at(unsigned row, unsigned chunk) {
    return row * bytes_of_row + (chunk ^ swizzle(row)) * chunk_bytes;
  }
  /// The same of chunk width * group + which (less than `width`) of row first + row, where the compiler knows `group`
  /// and `first`, which has no binary digit in common with `row`, so that swizzles are added without a carry: most of
  /// the address is a constant then, and the different rest takes few registers.
  template <unsigned width>
  KOKKOS_FORCEINLINE_FUNCTION static Shared at_near(int first, unsigned row, int group, unsigned which) {
    const unsigned chunk = width * unsigned(group), staying = chunk - chunk % period;
    const unsigned moving = chunk % period ^ swizzle(unsigned(first));
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
