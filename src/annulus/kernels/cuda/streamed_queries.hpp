// What a block that owns keys gives to the queries that it meets: dq += dS^T K, its keys' part of the sum, added
// atomically, so that bits differ from run to run.
//
// A warp (of a pair the second one) has dS of its own keys and all queries met, and the product wants all keys of some
// queries: dS^T goes through shared memory, as sums, from where it is read in the order in which engines hold sums.
// Warp w makes rows of 16 (or 8) queries, w modulo their number, and a share of the columns. Example: 32 queries, 4
// warps, D = 64:
//   warp            0     1      2      3
//   queries      0-15 16-31   0-15  16-31
//   columns      0-31  0-31  32-63  32-63
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/backward_memory.hpp"
#include "annulus/kernels/cuda/engines.hpp"
#include "annulus/kernels/cuda/walk.hpp"

namespace annulus::kernels::cuda {

template <class Engine, TileSizes sizes>
class StreamedQueries {
 public:
  using Sum = typename Engine::Sum;
  using Sums = typename Engine::Sums;
  using Memory = BackwardMemory<Engine, sizes, Adds::all>;
  static constexpr int met_pieces = sizes.keys / 16;

  /// dS of the warp's own keys, the first `count` of the block's being there: what the others have is any number.
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void put(Machine& machine, const Lane& lane,
                                              const Sums (&ds)[sizes.row_tiles][met_pieces], int count) {
    ANNULUS_UNROLL
    for (int r = 0; r < sizes.row_tiles; ++r) {
      for_each_sum_of(lane, ds[r], [&](const Sum& x, int part, int query) {
        const int key = Memory::first_row(lane, r) + 8 * part + lane.group;
        machine.store(Memory::ds_at(query, key), key < count ? x : Sum(0));
      });
    }
  }

  /// Adds to dq of the `count` queries of tile number `tile`. All warps have put, and the first owned rows are K.
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add(Machine& machine, const Lane& lane, int tile, int count, int head_dim) {
    const int first_query = lane.warp % query_tiles * Engine::rows, first_piece = lane.warp / query_tiles * pieces;
    Sums dq[pieces];
    for_each_sum_of(lane, dq, [](Sum& x, int, int) { x = 0; });
    ANNULUS_UNROLL
    for (int keys = 0; keys < Memory::rows; keys += 16) {
      const auto weights = Engine::weights_of(machine, Loaded(machine, lane, first_query, keys).ds);
      ANNULUS_UNROLL
      for (int piece = 0; piece < pieces; ++piece) {
        const auto k = Engine::load_values(machine, lane, Memory::own, keys, 16 * (first_piece + piece));
        Engine::add_values(machine, dq[piece], weights, k);
      }
    }
    ANNULUS_UNROLL
    for (int part = 0; part < Engine::parts; ++part) {
      const int j = first_query + 8 * part + lane.group;
      if (j >= count) continue;
      Sum* to = machine.template load<Sum*>(Memory::dq_from(tile, j));
      for_each_sum_of(lane, dq, [&](Sum& x, int of, int column) {
        const int d = 16 * first_piece + column;
        if (of == part && d < head_dim) machine.add(to + d, x);
      });
    }
  }

 private:
  static constexpr int query_tiles = sizes.keys / Engine::rows;
  static constexpr int pieces = sizes.columns / 16 * query_tiles / sizes.warps;  ///< of 16 columns, of one warp
  static_assert(sizes.warps % query_tiles == 0 && pieces * sizes.warps == sizes.columns / 16 * query_tiles);
  static_assert(Memory::rows % 16 == 0);

  struct alignas(2 * sizeof(Sum)) Pair {
    Sum of[2];
  };
  /// A piece of dS^T: `rows` queries x 16 keys.
  struct Loaded {
    Sums ds;
    template <class Machine>
    KOKKOS_FORCEINLINE_FUNCTION Loaded(Machine& machine, const Lane& lane, int query, int key) {
      ANNULUS_UNROLL
      for (int half = 0; half < 2; ++half) {
        ANNULUS_UNROLL
        for (int part = 0; part < Engine::parts; ++part) {
          const Shared at = Memory::ds_at(query + 8 * part + lane.group, key + 8 * half + 2 * lane.quad);
          const Pair pair = machine.template load<Pair>(at);
          ds[half][2 * part] = pair.of[0];
          ds[half][2 * part + 1] = pair.of[1];
        }
      }
    }
  };
};

}  // namespace annulus::kernels::cuda
