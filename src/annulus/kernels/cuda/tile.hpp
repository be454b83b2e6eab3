// Tiles of rows in shared memory. The 16-byte chunks of a row are permuted, so that lanes that read at the same time
// read different banks. Shared memory has 32 banks of 4 bytes, or 8 slots for chunks. A chunk's slot is its address,
// counted in chunks, mod 8.
//
// ldmatrix reads the same chunk of eight rows at a time (Reading::rows). For this, chunk c of row r is stored at index
// c ^ swizzle(r) of the row:
//   rows of 8 chunks (D = 64, 16 bits), r ^ c        rows of 4 chunks (D = 32), c ^ (r / 2 % 4)
//     row 0   0 1 2 3 4 5 6 7                          row 0, 1   0 1 2 3   0 1 2 3
//     row 1   1 0 3 2 5 4 7 6                          row 2, 3   1 0 3 2   1 0 3 2
//     row 2   2 3 0 1 6 7 4 5                          row 4, 5   2 3 0 1   2 3 0 1
//   The same chunk of eight rows fills all eight slots.
//
// ldmatrix cannot transpose a matrix of 32- or 64-bit numbers, so lanes read such a matrix number by number. At a time
// they read chunks c and c + 1, with even c, of four rows. If these are rows 0, 2, 4, 6 or 1, 3, 5, 7, the order above
// also spreads the reads over all slots. 64-bit numbers are also read from four successive rows. For 64-bit numbers
// (Reading::numbers) the swizzle is
//   row         0 1 2 3 4 5 6 7
//   swizzle     0 2 4 6 2 0 6 4
// so that rows 0-3, rows 4-7, rows 0 2 4 6 and rows 1 3 5 7 each have all four even numbers.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/machine.hpp"

namespace annulus::kernels::cuda {

inline constexpr int chunk_bytes = 16;

/// How the chunks of a row are permuted.
///   rows      for ldmatrix; if rows are a multiple of 128 bytes, also for reads of single numbers in every second row
///   numbers   for reads of single numbers, in four successive rows or in every second row
enum class Reading { rows, numbers };

template <int bytes_of_row, Reading reading>
struct SharedRows {
  static constexpr int chunks = bytes_of_row / chunk_bytes;
  static constexpr unsigned period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;  ///< chunks permuted together
  static_assert(bytes_of_row % 32 == 0, "a row is a multiple of two chunks");
  static_assert(reading == Reading::rows || period == 8, "number by number: a row is a multiple of 128 bytes");

  KOKKOS_FORCEINLINE_FUNCTION static unsigned swizzle(unsigned row) {
    if constexpr (reading == Reading::rows) return row / (8 / period) % period;
    return 2 * (row % 4 ^ row / 4 % 2);
  }
  /// Where chunk `chunk` of row `row` is stored in the tile.
  KOKKOS_FORCEINLINE_FUNCTION static Shared at(unsigned row, unsigned chunk) {
    return row * bytes_of_row + (chunk ^ swizzle(row)) * chunk_bytes;
  }
  /// The same for chunk width * group + which (which < width) of row first + row. No bit may be 1 in both `first` and
  /// `row`, because only then swizzle(first + row) = swizzle(first) ^ swizzle(row). If the compiler knows `group` and
  /// `first`, most of the address is a constant, and the rest takes few registers.
  template <unsigned width>
  KOKKOS_FORCEINLINE_FUNCTION static Shared at_near(int first, unsigned row, int group, unsigned which) {
    const unsigned chunk = width * unsigned(group), staying = chunk - chunk % period;
    const unsigned moving = chunk % period ^ swizzle(unsigned(first));
    return Shared(first * bytes_of_row) + staying * chunk_bytes +
           (row * bytes_of_row + (((which ^ swizzle(row)) * chunk_bytes) ^ (moving * chunk_bytes)));
  }
};

/// A thread's warp in the block, and its lane in the warp. Of the 16 x 8 (or 8 x 8) sums of a warp's product, the
/// thread has columns 2 quad and 2 quad + 1 of row `group` (and, of 16 rows, of row group + 8).
struct Lane {
  int warp, lane, group, quad;

  KOKKOS_FORCEINLINE_FUNCTION explicit Lane(int thread)
      : warp(int(unsigned(thread) / warp_size)),
        lane(int(unsigned(thread) % warp_size)),
        group(int(unsigned(lane) / 4)),
        quad(int(unsigned(lane) % 4)) {}
};

}  // namespace annulus::kernels::cuda
