// How the matrix units take a product of tiles, per type of numbers. An engine multiplies pieces:
//   Queries   a piece of Q, `rows` rows x 32 bytes                     the left side of S = Q K^T
//   Keys      a piece of K, 16 rows x 32 bytes                         its right side
//   Weights   a piece of P, `rows` rows x 16 keys, made from sums      the left side of O = P V
//   Values    a piece of V, 16 keys x 16 columns                       its right side
//   Sums      `rows` rows x 16 columns of S or O: [half][2 part + c] is row group + 8 part and column
//             8 half + 2 quad + c of the lane
// Sums of S become Weights without any lane seeing another's: the order of keys inside a product is free, as long as V
// comes in the same one. Where products are 8 or 4 keys deep, their keys are
//   16-bit   0 1 2 ... 15           the columns of the sums, as they lie
//   TF32     0 2 4 6 1 3 5 7        lane `quad` has keys 2 quad and 2 quad + 1, and they are to be quad and quad + 4
//   64-bit   0 2 4 6 | 1 3 5 7
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/storage.hpp"
#include "annulus/kernels/cuda/tile.hpp"

namespace annulus::kernels::cuda {

/// Chunk of row `row` that this lane names to ldmatrix for a 16 x 32 bytes piece as a left side: matrices of rows 0-7,
/// rows 8-15, and the same with the second chunk. V's pieces, 16 keys x 16 columns, come in this order, too.
struct LeftPlace {
  unsigned row, chunk;
  KOKKOS_FORCEINLINE_FUNCTION explicit LeftPlace(int lane) : row(unsigned(lane) % 16), chunk(unsigned(lane) / 16) {}
};
/// The same as a right side: the two chunks of rows 0-7, then those of rows 8-15.
struct RightPlace {
  unsigned row, chunk;
  KOKKOS_FORCEINLINE_FUNCTION explicit RightPlace(int lane)
      : row(unsigned(lane) % 8 + unsigned(lane) / 16 * 8), chunk(unsigned(lane) / 8 % 2) {}
};

/// Products of bfloat16 or float16 numbers, sums in float32.
template <class Number, int columns>
struct Engine16 {
  using Stored = Number;
  using Sum = float;
  using Tile = SharedRows<columns * 2, Reading::rows>;
  using KeyTile = Tile;
  using ValueTile = Tile;
  static constexpr int rows = 16, parts = 2;
  using Sums = float[2][2 * parts];
  using Queries = Words4;
  using Keys = Words4;
  using Weights = Words4;
  using Values = Words4;

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Queries load_queries(Machine& machine, const Lane& lane, Shared tile, int row,
                                                          int depth) {
    const LeftPlace place(lane.lane);
    return machine.load_matrices(tile + Tile::at_pair(row, place.row, depth, place.chunk));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Keys load_keys(Machine& machine, const Lane& lane, Shared tile, int row,
                                                    int depth) {
    const RightPlace place(lane.lane);
    return machine.load_matrices(tile + Tile::at_pair(row, place.row, depth, place.chunk));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Values load_values(Machine& machine, const Lane& lane, Shared tile, int key,
                                                        int column) {
    const LeftPlace place(lane.lane);
    return machine.load_transposed(tile + Tile::at_pair(key, place.row, column / 16, place.chunk));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Weights weights_of(Machine& machine, const Sums& p) {
    return {{machine.template pack<Stored>(p[0][0], p[0][1]), machine.template pack<Stored>(p[0][2], p[0][3]),
             machine.template pack<Stored>(p[1][0], p[1][1]), machine.template pack<Stored>(p[1][2], p[1][3])}};
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void multiply(Machine& machine, Sums& sums, const Words4& left,
                                                   const Words4& right) {
    machine.template multiply_16<Stored>(sums[0], left, right.of[0], right.of[1]);
    machine.template multiply_16<Stored>(sums[1], left, right.of[2], right.of[3]);
  }
  /// O += P V.
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_values(Machine& machine, Sums& sums, const Weights& weights,
                                                     const Values& values) {
    multiply(machine, sums, weights, values);
  }
};

}  // namespace annulus::kernels::cuda
