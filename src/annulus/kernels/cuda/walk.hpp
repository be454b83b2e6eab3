// The block programs of both passes share this code. They go through rows of the other side ("rows met") tile after
// tile, copy these rows into shared memory, and hide the pairs that the band hides.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/key_range.hpp"
#include "annulus/kernels/cuda/tile.hpp"

namespace annulus::kernels::cuda {

/// The order of tiles: from the highest position down, or from the lowest one up.
enum class Walk { down, up };

/// Positions that a block meets, in tiles of `size`. The tile with the last position may be smaller. Example: 150
/// positions, tiles of 64. With Walk::down, tile 0 has 128 ... 149, tile 1 has 64 ... 127 and tile 2 has 0 ... 63. With
/// Walk::up, tile 2 has 128 ... 149.
template <int size, Walk walk = Walk::down>
struct Tiles {
  int count = 0;
  int last = 0;                      ///< number of positions in the tile that may be smaller
  int first_full = 0, end_full = 0;  ///< full tiles that all rows of the block see completely

  KOKKOS_DEFAULTED_FUNCTION Tiles() = default;
  /// visible_to_any must not be empty; visible_to_all may reach beyond it, or lie outside it.
  KOKKOS_FORCEINLINE_FUNCTION Tiles(KeyRange visible_to_any, KeyRange visible_to_all) {
    const Index positions = visible_to_any.end - visible_to_any.begin;
    count = int((positions - 1) / size) + 1;
    last = int((positions - 1) % size) + 1;
    const int begin = int((visible_to_all.begin - visible_to_any.begin + size - 1) / size);
    const int end = int((visible_to_all.end - visible_to_any.begin) / size);
    first_full = walk == Walk::up ? begin : count - end;
    end_full = walk == Walk::up ? end : count - begin;
  }
  KOKKOS_FORCEINLINE_FUNCTION int rows_of(int tile) const {
    return tile >= count ? 0 : tile == (walk == Walk::up ? count - 1 : 0) ? last : size;
  }
  /// Returns the tile's first position. Members count positions from the lowest position that the block meets.
  KOKKOS_FORCEINLINE_FUNCTION Index first_of(int tile) const {
    return Index(walk == Walk::up ? tile : count - 1 - tile) * size;
  }
  KOKKOS_FORCEINLINE_FUNCTION bool has_hidden(int tile) const { return tile < first_full || tile >= end_full; }
  /// Returns where in the tile a position is, 0 if it is before the tile, or `size` if it is after the tile.
  KOKKOS_FORCEINLINE_FUNCTION int place(int tile, Index position) const {
    const Index first = first_of(tile);
    return position <= first ? 0 : position - first < size ? int(position - first) : size;
  }
};

/// Returns which row of tile number `tile` a thread looks up. If this is `rows` or more, the thread looks up no row.
/// Warps take turns, tile after tile.
template <int rows, int threads>
KOKKOS_FORCEINLINE_FUNCTION int row_to_look_up(int thread, int tile) {
  static_assert((threads & (threads - 1)) == 0, "2^32 is a multiple, so that differences below 0 keep their place");
  return int((unsigned(thread) - unsigned(tile) * unsigned(rows)) % unsigned(threads));
}

/// Calls visit(x, part, column) for a lane's numbers in 16 columns of sums.
template <class Sums, class Visit>
KOKKOS_FORCEINLINE_FUNCTION void for_each_sum(const Lane& lane, Sums& sums, const Visit& visit) {
  constexpr int numbers = int(sizeof(sums[0]) / sizeof(sums[0][0]));
  ANNULUS_UNROLL
  for (int half = 0; half < 2; ++half) {
    ANNULUS_UNROLL
    for (int i = 0; i < numbers; ++i) visit(sums[half][i], i / 2, 8 * half + 2 * lane.quad + i % 2);
  }
}
/// The same for `pieces` times 16 columns.
template <class Sums, int pieces, class Visit>
KOKKOS_FORCEINLINE_FUNCTION void for_each_sum_of(const Lane& lane, Sums (&sums)[pieces], const Visit& visit) {
  ANNULUS_UNROLL
  for (int piece = 0; piece < pieces; ++piece) {
    for_each_sum(lane, sums[piece], [&](auto& x, int part, int column) { visit(x, part, 16 * piece + column); });
  }
}

/// Copies `rows` rows, whose addresses are in the table at `addresses`, to shared memory at `to`. Writes zeros for
/// numbers beyond the head size, and for rows from number `count` on, for which the table has addresses of other rows.
template <class Layout, class Stored, int rows, int threads, class Machine>
KOKKOS_FORCEINLINE_FUNCTION void copy_rows(Machine& machine, Shared addresses, Shared to, int count, int head_dim) {
  constexpr int numbers_of_chunk = chunk_bytes / int(sizeof(Stored)), chunks = Layout::chunks;
  static_assert(rows * chunks % threads == 0, "all threads have equally many chunks");
  const unsigned thread = unsigned(machine.thread());
  const auto copy = [&](int row, int chunk, Shared place) {
    const bool in_head = chunk * numbers_of_chunk < head_dim;
    const auto from = machine.template load<const Stored*>(addresses + Shared(row * 8));
    machine.copy_16(to + place, from + (in_head ? chunk * numbers_of_chunk : 0), in_head && row < count);
  };
  if constexpr (threads % chunks == 0) {  // a thread copies the same chunk of every (threads / chunks)-th row
    const unsigned row = thread / chunks, chunk = thread % chunks;
    ANNULUS_UNROLL
    for (int first = 0; first < rows; first += threads / chunks)
      copy(first + int(row), int(chunk), Layout::template at_near<unsigned(chunks)>(first, row, 0, chunk));
  } else {
    ANNULUS_UNROLL
    for (int i = 0; i < rows * chunks / threads; ++i) {
      const unsigned number = thread + unsigned(i * threads), row = number / chunks, chunk = number % chunks;
      copy(int(row), int(chunk), Layout::at(row, chunk));
    }
  }
}

}  // namespace annulus::kernels::cuda
