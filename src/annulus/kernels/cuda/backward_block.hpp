// One block's work in the backward pass, on matrix units, with the formulas of kernels/device/backward_team.hpp. The
// block owns a tile of rows (queries or keys), and goes through the rows of the other side that see these rows or are
// seen by them ("rows met"). It computes the probabilities again, with the normalizers of the forward pass.
//
//   S = X Y^T, W = X' Y'^T      X, X' = Q, dO and Y, Y' = K, V if the block owns queries, the reverse if it owns keys
//   P = factor 2^(score_factor S - shift), dS = P (output_scale W - delta), both rounded to what the engine multiplies
//   queries owned:  dq += dS Y            keys owned:  dk += dS Y, dv += P Y'
//
// If head sizes are large, dk and dv do not both fit into a warp's registers. Then two warps have the same keys. One of
// them makes S, P and dv. The other warp gets P through shared memory, and makes W, dS and dk. Example: 64 keys, 4
// warps with two row tiles of 16 rows each:
//   warp     0        1         2        3
//   keys     0-31     0-31      32-63    32-63
//   makes    S P dv   W dS dk   S P dv   W dS dk
//
// Queries are (row, head) pairs. Shared memory has all of X and X', and two stages for tiles of Y and Y', like those of
// K and V in the forward pass (forward_memory.hpp). Only one block makes the sums of a row. So no addition is atomic,
// and the order of additions is fixed. (If blocks that own keys also added to dq, atomically, five products of tiles
// would be enough, instead of three for dq and four for dk and dv. On an H200 such a kernel was slower with 16-bit
// tensors, and 1.1 to 1.2 times as fast with TF32.)
//
// Sums start from the gradients in memory. Then the block adds one granule after another: 16 keys at a time, the last
// ones first, or 16 queries at a time, the first ones first. So bits are the same however rows are cut into calls and
// tiles, if cuts are between granules of 16 comb indices. Worked example: three query heads read a key head, and each
// row sees the keys after it. A block owns queries 64 ... 127, which are the (row, head) pairs of rows 21 ... 42. These
// rows see keys from 22 on. The block meets keys from 16 on, where the granule of key 22 begins, and hides 16 ... 21.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/backward_memory.hpp"
#include "annulus/kernels/cuda/engines.hpp"
#include "annulus/kernels/cuda/shared_probabilities.hpp"
#include "annulus/kernels/cuda/walk.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels::cuda {

/// sizes.keys: the number of rows met (keys or queries) in a tile.
template <template <class, int> class EngineOf, class Number, Adds adds, TileSizes sizes>
class BackwardBlock {
 public:
  using Engine = EngineOf<Number, sizes.columns>;
  using Stored = typename Engine::Stored;
  using Sum = typename Engine::Sum;
  using Task = BackwardTask<Sum>;
  using Memory = BackwardMemory<Engine, sizes, adds>;
  static constexpr device::Owner owner = adds == Adds::dq ? device::Owner::queries : device::Owner::keys;
  static constexpr int threads = sizes.warps * warp_size;
  static constexpr int rows = Memory::rows;
  static constexpr int shared_bytes = Memory::bytes;

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void run(Machine& machine, const Task& task, Index block) {
    Warp<Machine> warp(machine, task);
    const int tiles = warp.begin(task.work.template tile_of<owner>(block));
    if (tiles == 0) return;
    machine.barrier();
    warp.copy_owned();
    warp.store_met(0, warp.look_up_met(0));
    warp.store_met(1, warp.look_up_met(1));
    machine.barrier();
    warp.copy_met(0);
    machine.commit();
    warp.load_numbers();
    for (int tile = 0; tile < tiles; ++tile) {
      machine.wait();
      machine.barrier();
      warp.copy_met(tile + 1);
      machine.commit();
      const Numbers numbers = warp.look_up_met(tile + 2);
      warp.meet(tile);
      warp.store_met(tile + 2, numbers);
    }
    warp.store_gradients();
  }

 private:
  static constexpr bool owns_queries = owner == device::Owner::queries;
  static constexpr int row_tiles = sizes.row_tiles, parts = Engine::parts;
  static constexpr int met_pieces = sizes.keys / 16, column_pieces = sizes.columns / 16;
  static constexpr int depths = Memory::row_bytes / 32;
  static constexpr bool in_pairs = Memory::in_pairs;
  static constexpr int gradients = owns_queries || in_pairs ? 1 : 2;  ///< how many gradients a warp makes
  using Sums = typename Engine::Sums;
  using Numbers = QueryNumbers<Sum>;
  static_assert(shared_bytes <= most_shared_bytes);
  static_assert(sizes.keys <= threads && rows <= threads, "one row a thread is looked up");

  template <class Machine>
  class Warp {
   public:
    KOKKOS_FORCEINLINE_FUNCTION Warp(Machine& machine, const Task& task)
        : machine_(machine), task_(task), lane_(machine.thread()) {}

    /// Looks up the rows that the block owns. Returns how many tiles of rows the block meets.
    KOKKOS_FORCEINLINE_FUNCTION int begin(const device::TeamTile& mine) {
      const core::WorkItem& item = mine.item;
      const KeyRange of_first = met_by(item, owned_row(item, mine.begin).t);
      const KeyRange of_last = met_by(item, owned_row(item, mine.begin + mine.count - 1).t);
      const TileKeys met(of_first, of_last);
      const KeyRange visible_to_any = met.visible_to_any;
      if (visible_to_any.begin >= visible_to_any.end) return 0;
      count_ = mine.count;
      tiles_ = {visible_to_any, met.visible_to_all};
      const BackwardOperands& t = task_.operands;
      const int i = machine_.thread();
      if (i < rows) {
        const device::ItemRow row = owned_row(item, mine.begin + (i < count_ ? i : count_ - 1));
        const KeyRange seen = met_by(item, row.t);
        machine_.store(Memory::own_table(0, i), address_of(owns_queries ? t.q : t.k, mine.batch, row));
        machine_.store(Memory::own_table(1, i), address_of(owns_queries ? t.dout : t.v, mine.batch, row));
        machine_.store(Memory::own_table(2, i), seen.begin - visible_to_any.begin);
        machine_.store(Memory::own_table(3, i), seen.end - visible_to_any.begin);
      }
      if (i == 0) machine_.store(Memory::facts, BackwardFacts{item, mine.batch, visible_to_any.begin});
      begin_ = mine.begin;
      return tiles_.count;
    }

    /// Looks up the addresses of one row met. Returns the row's numbers if it is a query of the tile, otherwise no_key.
    KOKKOS_FORCEINLINE_FUNCTION Numbers look_up_met(int tile) {
      const int j = row_to_look_up<sizes.keys, threads>(machine_.thread(), tile), last = tiles_.rows_of(tile) - 1;
      Numbers numbers = no_key;
      if (j >= sizes.keys || last < 0) return numbers;
      const auto facts = machine_.template load<BackwardFacts>(Memory::facts);
      const BackwardOperands& t = task_.operands;
      const device::ItemRow row = met_row(facts.item, facts.first + tiles_.first_of(tile) + (j < last ? j : last));
      machine_.store(Memory::met_table(tile, 0, j), address_of(owns_queries ? t.k : t.q, facts.batch, row));
      machine_.store(Memory::met_table(tile, 1, j), address_of(owns_queries ? t.v : t.dout, facts.batch, row));
      if (!owns_queries && j <= last) numbers = numbers_of(facts.batch, row);
      return numbers;
    }
    /// The second half of look_up_met(), which run() calls later, when the numbers have arrived from global memory.
    /// Rows after the tile's last row have the numbers no_key.
    KOKKOS_FORCEINLINE_FUNCTION void store_met(int tile, const Numbers& numbers) {
      if constexpr (!owns_queries) {
        const int j = row_to_look_up<sizes.keys, threads>(machine_.thread(), tile);
        if (j < sizes.keys) machine_.store(Memory::numbers(tile, j), numbers);
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void copy_owned() {
      for (int which = 0; which < 2; ++which) {
        copy_rows<typename Engine::Tile, Stored, rows, threads>(machine_, Memory::own_table(which, 0),
                                                                Memory::own + Shared(which) * Memory::own_bytes, count_,
                                                                task_.head_dim);
      }
    }
    KOKKOS_FORCEINLINE_FUNCTION void copy_met(int tile) {
      const int count = tiles_.rows_of(tile);
      if (count <= 0) return;
      ANNULUS_UNROLL
      for (int which = 0; which < 2; ++which) {
        copy_rows<typename Engine::Tile, Stored, sizes.keys, threads>(
            machine_, Memory::met_table(tile, which, 0), Memory::stage(tile, which), count, task_.head_dim);
      }
    }

    /// Starts the sums from the gradients in memory. If the owned rows are queries, also loads their numbers.
    KOKKOS_FORCEINLINE_FUNCTION void load_numbers() {
      for_each_gradient([&](const Sum* from, Sum(&sums)[2], bool inside) {
        sums[0] = inside ? from[0] : Sum(0);
        sums[1] = inside ? from[1] : Sum(0);
      });
      if constexpr (owns_queries) {
        const auto facts = machine_.template load<BackwardFacts>(Memory::facts);
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) {
          ANNULUS_UNROLL
          for (int part = 0; part < parts; ++part) {
            const int i = row_of(r, part);
            own_[r][part] = i < count_ ? numbers_of(facts.batch, owned_row(facts.item, begin_ + i)) : no_key;
          }
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void meet(int tile) {
      if constexpr (in_pairs) {
        meet_in_pairs(tile);
      } else {
        TileSums s, w;
        multiply(0, Memory::stage(tile, 0), s);
        multiply(1, Memory::stage(tile, 1), w);
        hide(tile, s);
        for_each_query(tile, [&](const Numbers& query, int r, int piece, int half, int i) {
          Sum& p = s[r][piece][half][i];
          p = probability(query, p);
          w[r][piece][half][i] = slope(query, p, w[r][piece][half][i]);
        });
        add_products(Memory::stage(tile, 0), w, sums_[0]);
        if constexpr (!owns_queries) add_products(Memory::stage(tile, 1), s, sums_[1]);
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void store_gradients() {
      for_each_gradient([](Sum* to, const Sum(&sums)[2], bool inside) {
        if (!inside) return;
        to[0] = sums[0];
        to[1] = sums[1];
      });
    }

   private:
    using TileSums = Sums[row_tiles][met_pieces];
    using Probabilities = SharedProbabilities<Memory, Sums, row_tiles, met_pieces>;
    static constexpr Numbers no_key{Sum(INFINITY), 0, 0};

    /// P of the next tile replaces P of this tile only after the barrier with which run() begins the next tile. At this
    /// barrier, all warps have read P of this tile.
    KOKKOS_FORCEINLINE_FUNCTION void meet_in_pairs(int tile) {
      const int second = second_of_pair();
      TileSums x;  // S and P, or W and dS
      multiply(second, Memory::stage(tile, second), x);
      if (second == 0) {
        hide(tile, x);
        for_each_query(tile, [&](const Numbers& query, int r, int piece, int half, int i) {
          x[r][piece][half][i] = probability(query, x[r][piece][half][i]);
        });
        Probabilities::put(machine_, lane_, x);
      }
      machine_.barrier();
      if (second == 1) {
        TileSums p;
        Probabilities::take(machine_, lane_, p);
        for_each_query(tile, [&](const Numbers& query, int r, int piece, int half, int i) {
          x[r][piece][half][i] = slope(query, p[r][piece][half][i], x[r][piece][half][i]);
        });
      }
      add_products(Memory::stage(tile, 1 - second), x, sums_[0]);
    }
    /// Returns 0 if this warp makes dv, and 1 if it makes dk.
    KOKKOS_FORCEINLINE_FUNCTION int second_of_pair() const { return int(unsigned(lane_.warp) % 2); }

    KOKKOS_FORCEINLINE_FUNCTION device::ItemRow owned_row(const core::WorkItem& item, Index number) const {
      return owns_queries ? task_.work.query_of(item, number) : task_.work.key_of(item, number);
    }
    KOKKOS_FORCEINLINE_FUNCTION device::ItemRow met_row(const core::WorkItem& item, Index number) const {
      return owns_queries ? task_.work.key_of(item, number) : task_.work.query_of(item, number);
    }
    /// Positions, on the other side, of the rows that see an owned row of comb index t, or are seen by it.
    KOKKOS_FORCEINLINE_FUNCTION KeyRange met_by(const core::WorkItem& item, Index t) const {
      return owns_queries ? keys_seen_at(task_.work, item, t) : queries_that_see(task_.work, item, t);
    }
    KOKKOS_FORCEINLINE_FUNCTION static const Stored* address_of(const core::TensorView& tensor, Index batch,
                                                                const device::ItemRow& row) {
      return static_cast<const Stored*>(tensor.data) + number_of(tensor, batch, row.row, row.head);
    }
    KOKKOS_FORCEINLINE_FUNCTION static Sum* sums_of(const core::TensorView& gradient, Index batch,
                                                    const device::ItemRow& row) {
      return static_cast<Sum*>(gradient.data) + number_of(gradient, batch, row.row, row.head);
    }
    KOKKOS_FORCEINLINE_FUNCTION Numbers numbers_of(Index batch, const device::ItemRow& row) const {
      const core::TensorView &normalizers = task_.operands.normalizers, &delta = task_.operands.delta;
      const Sum* normalizer =
          static_cast<const Sum*>(normalizers.data) + number_of(normalizers, batch, row.row, row.head);
      const Sum of_row = static_cast<const Sum*>(delta.data)[number_of(delta, batch, row.row, row.head)];
      const Sum factor = normalizer[1];
      return {normalizer[0], factor, factor == Sum(0) ? Sum(0) : of_row};
    }
    KOKKOS_FORCEINLINE_FUNCTION int row_of(int r, int part) const {
      return Memory::first_row(lane_, r) + 8 * part + lane_.group;
    }

    /// s = X Y^T (which = 0) or X' Y'^T (which = 1), with the tile of Y or Y' at `right`.
    KOKKOS_FORCEINLINE_FUNCTION void multiply(int which, Shared right, TileSums& s) {
      const Shared left = Memory::own + Shared(which) * Memory::own_bytes;
      ANNULUS_UNROLL
      for (int r = 0; r < row_tiles; ++r) for_each_sum_of(lane_, s[r], [](Sum& x, int, int) { x = 0; });
      ANNULUS_UNROLL
      for (int depth = 0; depth < depths; ++depth) {
        typename Engine::Queries x[row_tiles];
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r)
          x[r] = Engine::load_queries(machine_, lane_, left, Memory::first_row(lane_, r), depth);
        ANNULUS_UNROLL
        for (int piece = 0; piece < met_pieces; ++piece) {
          const auto y = Engine::load_keys(machine_, lane_, right, 16 * piece, depth);
          ANNULUS_UNROLL
          for (int r = 0; r < row_tiles; ++r) Engine::multiply(machine_, s[r][piece], x[r], y);
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION Sum probability(const Numbers& query, Sum s) const {
      return query.factor * machine_.exp2(task_.score_factor * s - query.shift);
    }
    /// dS of a pair.
    KOKKOS_FORCEINLINE_FUNCTION Sum slope(const Numbers& query, Sum p, Sum w) const {
      return p * (Sum(task_.operands.output_scale) * w - query.delta);
    }
    /// Calls visit(query, r, piece, half, i) for each sum [r][piece][half][i] that this lane has. `query` has the
    /// numbers of the sum's query.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_query(int tile, const Visit& visit) const {
      ANNULUS_UNROLL
      for (int r = 0; r < row_tiles; ++r) {
        ANNULUS_UNROLL
        for (int piece = 0; piece < met_pieces; ++piece) {
          ANNULUS_UNROLL
          for (int half = 0; half < 2; ++half) {
            ANNULUS_UNROLL
            for (int i = 0; i < 2 * parts; ++i) {
              const int j = 16 * piece + 8 * half + 2 * lane_.quad + i % 2;
              if constexpr (owns_queries) visit(own_[r][i / 2], r, piece, half, i);
              if constexpr (!owns_queries)
                visit(machine_.template load<Numbers>(Memory::numbers(tile, j)), r, piece, half, i);
            }
          }
        }
      }
    }
    KOKKOS_FORCEINLINE_FUNCTION void hide(int tile, TileSums& s) const {
      if (!tiles_.has_hidden(tile)) return;
      ANNULUS_UNROLL
      for (int r = 0; r < row_tiles; ++r) {
        int begin[parts], end[parts];
        ANNULUS_UNROLL
        for (int part = 0; part < parts; ++part) {
          const int i = row_of(r, part);
          begin[part] = tiles_.place(tile, machine_.template load<Index>(Memory::own_table(2, i)));
          end[part] = tiles_.place(tile, machine_.template load<Index>(Memory::own_table(3, i)));
        }
        for_each_sum_of(lane_, s[r],
                        [&](Sum& x, int part, int j) { x = j < begin[part] || j >= end[part] ? Sum(-INFINITY) : x; });
      }
    }

    /// sums += dS Y, or P Y'. `of` is dS or P; the tile of Y or Y' is at `right`.
    KOKKOS_FORCEINLINE_FUNCTION void add_products(Shared right, const TileSums& of,
                                                  Sums (&sums)[row_tiles][column_pieces]) {
      ANNULUS_UNROLL
      for (int i = 0; i < met_pieces; ++i) {
        const int piece = owns_queries ? met_pieces - 1 - i : i;
        typename Engine::Weights weights[row_tiles];
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) weights[r] = Engine::weights_of(machine_, of[r][piece]);
        ANNULUS_UNROLL
        for (int column = 0; column < column_pieces; ++column) {
          const auto y = Engine::load_values(machine_, lane_, right, 16 * piece, 16 * column);
          ANNULUS_UNROLL
          for (int r = 0; r < row_tiles; ++r) Engine::add_values(machine_, sums[r][column], weights[r], y);
        }
      }
    }

    /// Calls visit(address, sums, inside) for each pair of sums that this lane has. inside: the row is owned, and the
    /// pair is within the head size.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_gradient(const Visit& visit) {
      const auto facts = machine_.template load<BackwardFacts>(Memory::facts);
      ANNULUS_UNROLL
      for (int r = 0; r < row_tiles; ++r) {
        ANNULUS_UNROLL
        for (int part = 0; part < parts; ++part) {
          const int i = row_of(r, part);
          const device::ItemRow row = owned_row(facts.item, begin_ + (i < count_ ? i : 0));
          ANNULUS_UNROLL
          for (int which = 0; which < gradients; ++which)
            for_each_of_row(sums_[which][r], part, sums_of(gradient(which), facts.batch, row), i < count_, visit);
        }
      }
    }
    KOKKOS_FORCEINLINE_FUNCTION const core::TensorView& gradient(int which) const {
      const GradientViews& of = task_.gradients;
      if constexpr (owns_queries) return of.dq;
      return (in_pairs ? second_of_pair() == 1 : which == 0) ? of.dk : of.dv;
    }
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_of_row(Sums (&sums)[column_pieces], int part, Sum* row, bool is_owned,
                                                     const Visit& visit) const {
      ANNULUS_UNROLL
      for (int piece = 0; piece < column_pieces; ++piece) {
        ANNULUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int column = 16 * piece + 8 * half + 2 * lane_.quad;
          Sum(&of_lane)[2 * parts] = sums[piece][half];
          Sum pair[2] = {of_lane[2 * part], of_lane[2 * part + 1]};
          visit(row + column, pair, is_owned && column < task_.head_dim);
          of_lane[2 * part] = pair[0];
          of_lane[2 * part + 1] = pair[1];
        }
      }
    }

    Machine& machine_;
    const Task& task_;
    const Lane lane_;
    int count_ = 0;    // number of owned rows
    Index begin_ = 0;  // number of the first one in the item
    Tiles<sizes.keys, owns_queries ? Walk::down : Walk::up> tiles_;
    Numbers own_[row_tiles][parts];
    Sums sums_[gradients][row_tiles][column_pieces];
  };
};

}  // namespace annulus::kernels::cuda
