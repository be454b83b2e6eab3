// One block's work in the forward pass, on matrix units: attention of a tile of query rows of one head to the item's
// keys, tile after tile in descending order of t, as in FlashAttention-2 (Dao 2023). kernels/device/forward_team.hpp
// has the formulas of the running softmax. Here sums are made in another order, and data are in other memory:
//
//   registers      O, S and P of the warp's own rows (and Q, if it fits), m and l
//   shared memory  Q, two tiles of K and V: while one is multiplied, the next one is copied, 16 bytes at a time, from
//                  rows anywhere in global memory (forward_memory.hpp)
//
// m is the smallest even integer that is at least the score that raised m. m seldom rises. If m rises for no row of a
// row tile, the warp skips the rescaling of the row tile's l and O. P is rounded to what the matrix unit multiplies
// (engines.hpp), and l is the sum of these rounded numbers.
//
// If the keys of a team are split (key_split.hpp), a block goes through only a part of them and writes a partial state.
//
// If `ordered`, bits are the same however the keys are cut into calls and tiles, if cuts are between granules of 16
// comb indices. A tile's keys are weighed and added granule by granule, the last granule first. So m, l and O after
// each granule are what they would be with any other tiles. Worked example: keys 0 ... 39, tiles of 32. One call has
// tiles of the granules 32-39 | 16-31, 0-15. Two calls, cut at key 16, have tiles of 32-39, 16-31 | 0-15. Both ways
// add the same numbers in the same order.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/kernels/cuda/engines.hpp"
#include "annulus/kernels/cuda/forward_memory.hpp"
#include "annulus/kernels/cuda/forward_task.hpp"
#include "annulus/kernels/cuda/walk.hpp"
#include "annulus/kernels/device/softmax.hpp"

namespace annulus::kernels::cuda {

template <template <class, int> class EngineOf, class Number, TileSizes sizes, bool ordered = false>
class ForwardBlock {
 public:
  using Engine = EngineOf<Number, sizes.columns>;
  using Stored = typename Engine::Stored;
  using Sum = typename Engine::Sum;
  using Task = ForwardTask<Sum>;
  using Memory = ForwardMemory<Engine, sizes>;
  static constexpr int threads = sizes.warps * warp_size;
  static constexpr int rows = Memory::rows, keys = sizes.keys;
  static constexpr bool is_ordered = ordered;
  static constexpr int shared_bytes = Memory::bytes;

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void run(Machine& machine, const Task& task, Index block) {
    Warp<Machine> warp(machine, task);
    const int tiles = warp.begin(block);
    if (tiles == 0) return;
    machine.barrier();
    warp.copy_queries();
    warp.look_up_keys(0);
    warp.look_up_keys(1);
    machine.barrier();
    warp.copy_keys(0);
    machine.commit();
    warp.load_state();
    machine.wait();
    machine.barrier();
    warp.keep_queries();
    for (int tile = 0;; ++tile) {
      warp.copy_keys(tile + 1);
      machine.commit();
      warp.look_up_keys(tile + 2);
      warp.meet(tile);
      if (tile + 1 == tiles) break;
      machine.wait();
      machine.barrier();
    }
    warp.store_state();
  }

 private:
  static constexpr int row_tiles = sizes.row_tiles, parts = Engine::parts;
  static constexpr int key_pieces = sizes.keys / 16, column_pieces = sizes.columns / 16;
  /// A tile's keys are weighed and added in `steps` steps of step_pieces pieces (16 keys) each.
  static constexpr int step_pieces = ordered ? 1 : key_pieces, steps = key_pieces / step_pieces;
  static constexpr int depths = Memory::row_bytes / 32, chunks = Memory::row_bytes / chunk_bytes;
  static constexpr int numbers_of_chunk = chunk_bytes / int(sizeof(Stored));
  static constexpr Sum none = Sum(-INFINITY);
  static_assert(shared_bytes <= most_shared_bytes);
  static_assert(sizes.keys <= threads && sizes.keys * chunks % threads == 0, "each thread has a row and some chunks");

  /// One thread's share of its warp's work.
  template <class Machine>
  class Warp {
   public:
    KOKKOS_FORCEINLINE_FUNCTION Warp(Machine& machine, const Task& task)
        : machine_(machine), task_(task), thread_(machine.thread()), lane_(thread_) {}

    /// Looks up the block's queries. Returns the number of tiles of keys that some of these queries see.
    KOKKOS_FORCEINLINE_FUNCTION int begin(Index block) {
      const KeyPart part = task_.part_of(block);
      const device::TeamTile mine = task_.work.template tile_of<device::Owner::rows>(part.team);
      const core::WorkItem& item = mine.item;
      const TileKeys met = keys_of_tile(task_.work, mine);
      const KeyRange visible_to_any = inside(met.visible_to_any, part.keys);
      if (visible_to_any.begin >= visible_to_any.end) return 0;
      const Tiles<sizes.keys> tiles(visible_to_any, met.visible_to_all);
      for (int i = thread_; i < mine.count; i += threads) {
        const device::CombRow found = task_.work.row_of(item.query, mine.begin + i);
        const KeyRange seen = keys_seen_at(task_.work, item, found.t);
        machine_.store(Memory::query_row(i), found.row);
        machine_.store(Memory::seen_begin(i), seen.begin - visible_to_any.begin);
        machine_.store(Memory::seen_end(i), seen.end - visible_to_any.begin);
      }
      if (thread_ == 0) {
        machine_.store(Memory::tiles, tiles);
        machine_.store(Memory::facts,
                       ForwardFacts{item.key, visible_to_any.begin, head_of(task_.k, mine.batch, item.kv_head),
                                    head_of(task_.v, mine.batch, item.kv_head),
                                    task_.state.at(mine.batch, 0, mine.head), part.partial, mine.count, part.goes_on});
      }
      q_ = head_of(task_.q, mine.batch, mine.head);
      return tiles.count;
    }

    KOKKOS_FORCEINLINE_FUNCTION void look_up_keys(int tile) {
      const Tiles<sizes.keys> tiles = this->tiles();
      const int j = row_to_look_up<sizes.keys, threads>(thread_, tile), last = tiles.rows_of(tile) - 1;
      if (j >= sizes.keys || last < 0) return;
      const auto facts = machine_.template load<ForwardFacts>(Memory::facts);
      const Index key = facts.first_key + tiles.first_of(tile) + (j < last ? j : last);
      const device::CombRow found = task_.work.row_of(facts.keys, key);
      machine_.store(Memory::key_from(tile, j), static_cast<const Stored*>(facts.k) + found.row * task_.k.row_stride);
      machine_.store(Memory::value_from(tile, j), static_cast<const Stored*>(facts.v) + found.row * task_.v.row_stride);
    }

    KOKKOS_FORCEINLINE_FUNCTION void copy_queries() {
      const int count = machine_.template load<ForwardFacts>(Memory::facts).count;
      for (int i = thread_; i < rows * chunks; i += threads) {
        const int row = i / chunks, chunk = i % chunks;
        const bool inside = row < count && chunk * numbers_of_chunk < task_.head_dim;
        const Index offset = inside ? machine_.template load<Index>(Memory::query_row(row)) * task_.q.row_stride : 0;
        machine_.copy_16(Memory::queries + Engine::Tile::at(row, chunk),
                         q_ + offset + (inside ? chunk * numbers_of_chunk : 0), inside);
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void copy_keys(int tile) {
      const int count = tiles().rows_of(tile), head_dim = task_.head_dim;
      if (count <= 0) return;
      const Shared k = stage(Memory::keys, tile), v = stage(Memory::values, tile);
      using Tile = typename Engine::Tile;
      copy_rows<Tile, Stored, sizes.keys, threads>(machine_, Memory::key_from(tile, 0), k, count, head_dim);
      copy_rows<Tile, Stored, sizes.keys, threads>(machine_, Memory::value_from(tile, 0), v, count, head_dim);
    }

    KOKKOS_FORCEINLINE_FUNCTION void load_state() {
      const auto facts = machine_.template load<ForwardFacts>(Memory::facts);
      ANNULUS_UNROLL
      for (int r = 0; r < row_tiles; ++r) {
        ANNULUS_UNROLL
        for (int part = 0; part < parts; ++part) {
          const int i = row_of(r, part);
          const bool mine = facts.goes_on && i < facts.count;
          const Index at = mine ? state_at(i) : 0;
          const Sum l = mine ? task_.state.l[at] : Sum(0);
          m_[r][part] = l == Sum(0) ? none : task_.state.m[at];
          l_[r].set(lane_, part, l);
          for_each_accumulator(r, part, task_.state.acc + at * task_.head_dim,
                               [&](Sum(&o)[2], const Sum* acc, bool inside) {
                                 o[0] = l == Sum(0) || !inside ? Sum(0) : acc[0];
                                 o[1] = l == Sum(0) || !inside ? Sum(0) : acc[1];
                               });
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void keep_queries() {
      if constexpr (sizes.kept_queries) {
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) {
          ANNULUS_UNROLL
          for (int depth = 0; depth < depths; ++depth) kept_[r][depth] = load_queries(r, depth);
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void meet(int tile) {
      typename Engine::Sums s[steps][row_tiles][step_pieces];
      multiply_scores(tile, s);
      const bool has_hidden = tiles().has_hidden(tile);
      ANNULUS_UNROLL
      for (int step = steps - 1; step >= 0; --step) {
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) {
          if (has_hidden) hide(tile, step, r, s[step][r]);
          weigh(r, s[step][r]);
        }
        add_values(tile, step, s[step]);
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void store_state() {
      const auto facts = machine_.template load<ForwardFacts>(Memory::facts);
      const Index partial = facts.partial;
      const device::StatePointers<Sum>& state = partial == no_partial ? task_.state : task_.partial_states;
      ANNULUS_UNROLL
      for (int r = 0; r < row_tiles; ++r) {
        ANNULUS_UNROLL
        for (int part = 0; part < parts; ++part) {
          const Sum l = l_[r].total(machine_, part);
          const int i = row_of(r, part);
          if (i >= facts.count) continue;
          const Index at = partial == no_partial ? state_at(i) : partial + i;
          if (lane_.quad == 0) {
            state.m[at] = m_[r][part];
            state.l[at] = l;
          }
          for_each_accumulator(r, part, state.acc + at * task_.head_dim, [&](Sum(&o)[2], Sum* acc, bool inside) {
            if (!inside) return;
            acc[0] = o[0];
            acc[1] = o[1];
          });
        }
      }
    }

   private:
    KOKKOS_FORCEINLINE_FUNCTION Tiles<sizes.keys> tiles() const {
      return machine_.template load<Tiles<sizes.keys>>(Memory::tiles);
    }
    KOKKOS_FORCEINLINE_FUNCTION static const Stored* head_of(const core::TensorView& tensor, Index batch, Index head) {
      return static_cast<const Stored*>(tensor.data) + batch * tensor.batch_stride + head * tensor.head_stride;
    }
    KOKKOS_FORCEINLINE_FUNCTION static Shared stage(Shared first, int tile) {
      return first + Shared(tile % 2) * Memory::stage_bytes;
    }
    /// Returns which query of the block this lane has as part `part` of row tile r.
    KOKKOS_FORCEINLINE_FUNCTION int row_of(int r, int part) const {
      return (lane_.warp * row_tiles + r) * Engine::rows + 8 * part + lane_.group;
    }
    KOKKOS_FORCEINLINE_FUNCTION Index state_at(int i) const {
      const Index first = machine_.template load<ForwardFacts>(Memory::facts).first_state;
      return first + machine_.template load<Index>(Memory::query_row(i)) * task_.state.heads;
    }
    KOKKOS_FORCEINLINE_FUNCTION typename Engine::Queries load_queries(int r, int depth) const {
      return Engine::load_queries(machine_, lane_, Memory::queries, (lane_.warp * row_tiles + r) * Engine::rows, depth);
    }

    /// Calls visit(o, a, inside) for each pair of accumulators of a row that this lane has. o is the pair in registers,
    /// a is its address in the state, where the row begins at `acc`. inside: the pair is within the head size.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_accumulator(int r, int part, Sum* acc, const Visit& visit) {
      ANNULUS_UNROLL
      for (int piece = 0; piece < column_pieces; ++piece) {
        ANNULUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int column = 16 * piece + 8 * half + 2 * lane_.quad;
          Sum(&sums)[2 * parts] = o_[r][piece][half];
          Sum pair[2] = {sums[2 * part], sums[2 * part + 1]};
          visit(pair, acc + column, column < task_.head_dim);
          sums[2 * part] = pair[0];
          sums[2 * part + 1] = pair[1];
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void multiply_scores(int tile,
                                                     typename Engine::Sums (&s)[steps][row_tiles][step_pieces]) {
      ANNULUS_UNROLL
      for (int step = 0; step < steps; ++step) {
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) for_each_sum_of(lane_, s[step][r], [](Sum& x, int, int) { x = 0; });
      }
      const Shared keys = stage(Memory::keys, tile);
      ANNULUS_UNROLL
      for (int depth = 0; depth < depths; ++depth) {
        typename Engine::Queries queries[row_tiles];
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) {
          if constexpr (sizes.kept_queries) queries[r] = kept_[r][depth];
          if constexpr (!sizes.kept_queries) queries[r] = load_queries(r, depth);
        }
        ANNULUS_UNROLL
        for (int piece = 0; piece < key_pieces; ++piece) {
          const auto right = Engine::load_keys(machine_, lane_, keys, 16 * piece, depth);
          ANNULUS_UNROLL
          for (int r = 0; r < row_tiles; ++r)
            Engine::multiply(machine_, s[piece / step_pieces][r][piece % step_pieces], queries[r], right);
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION void hide(int tile, int step, int r, typename Engine::Sums (&s)[step_pieces]) const {
      const Tiles<sizes.keys> tiles = this->tiles();
      int begin[parts], end[parts];
      ANNULUS_UNROLL
      for (int part = 0; part < parts; ++part) {
        const int i = row_of(r, part);  // after the last query nothing was stored at i, but no result uses what is read
        begin[part] = tiles.place(tile, machine_.template load<Index>(Memory::seen_begin(i)));
        end[part] = tiles.place(tile, machine_.template load<Index>(Memory::seen_end(i)));
      }
      const int first = 16 * step_pieces * step;
      for_each_sum_of(lane_, s, [&](Sum& x, int part, int column) {
        const int j = first + column;
        x = j < begin[part] || j >= end[part] ? none : x;
      });
    }

    /// Turns products of queries and keys into weights. Before this, it raises m and rescales l and O if a score is
    /// above m.
    KOKKOS_FORCEINLINE_FUNCTION void weigh(int r, typename Engine::Sums (&s)[step_pieces]) {
      Sum factor = task_.score_factor;  // above 0, so -inf of hidden pairs stays -inf
      if constexpr (ordered) make_scores(s, factor);
      Sum largest[parts];
      for (int part = 0; part < parts; ++part) largest[part] = none;
      for_each_sum_of(lane_, s, [&](Sum& x, int part, int) { largest[part] = machine_.larger(x, largest[part]); });
      bool rises = false;
      for (int part = 0; part < parts; ++part) rises |= factor * largest[part] > m_[r][part];
      if (machine_.any(rises)) raise(r, largest, s, factor);
      Sum shift[parts];
      for (int part = 0; part < parts; ++part) shift[part] = m_[r][part] == none ? Sum(0) : m_[r][part];
      for_each_sum_of(lane_, s, [&](Sum& x, int part, int) { x = machine_.exp2(factor * x - shift[part]); });
    }

    /// Raises m to an even integer that is at least the row's largest score. `product` is the largest product of this
    /// lane. If a score is +inf, scores replace the products (`factor` becomes 1), and the largest finite number
    /// replaces +inf.
    KOKKOS_FORCEINLINE_FUNCTION void raise(int r, const Sum (&product)[parts], typename Engine::Sums (&s)[step_pieces],
                                           Sum& factor) {
      constexpr Sum most = device::largest_number<Sum>;
      Sum shrink[parts];
      bool is_beyond = false;
      ANNULUS_UNROLL
      for (int part = 0; part < parts; ++part) {
        const Sum largest = factor * largest_of_quad(product[part]);
        const Sum before = m_[r][part], above = 2 * core::ceil(largest / 2);
        const Sum fresh = largest > before ? (above < most ? above : most) : before;
        shrink[part] = before == none ? Sum(0) : device::power_of_two(before - fresh);
        m_[r][part] = fresh;
        l_[r].shrink(part, shrink[part]);
        is_beyond |= largest > most;
      }
      ANNULUS_UNROLL
      for (int piece = 0; piece < column_pieces; ++piece) {
        for_each_sum(lane_, o_[r][piece], [&](Sum& x, int part, int) { x *= shrink[part]; });
      }
      if (machine_.any(is_beyond)) make_scores(s, factor);
    }
    KOKKOS_FORCEINLINE_FUNCTION void make_scores(typename Engine::Sums (&s)[step_pieces], Sum& factor) {
      constexpr Sum most = device::largest_number<Sum>;
      for_each_sum_of(lane_, s, [&](Sum& x, int, int) {
        x *= factor;
        x = x > most ? most : x;
      });
      factor = 1;
    }

    KOKKOS_FORCEINLINE_FUNCTION void add_values(int tile, int step,
                                                const typename Engine::Sums (&s)[row_tiles][step_pieces]) {
      const Shared values = stage(Memory::values, tile);
      ANNULUS_UNROLL
      for (int piece = 0; piece < step_pieces; ++piece) {
        typename Engine::Weights weights[row_tiles];
        ANNULUS_UNROLL
        for (int r = 0; r < row_tiles; ++r) {
          weights[r] = Engine::weights_of(machine_, s[r][piece]);
          Engine::template add_rows<ordered>(machine_, lane_, l_[r], weights[r]);
        }
        ANNULUS_UNROLL
        for (int column = 0; column < column_pieces; ++column) {
          const auto right =
              Engine::load_values(machine_, lane_, values, 16 * (step * step_pieces + piece), 16 * column);
          ANNULUS_UNROLL
          for (int r = 0; r < row_tiles; ++r) Engine::add_values(machine_, o_[r][column], weights[r], right);
        }
      }
    }

    KOKKOS_FORCEINLINE_FUNCTION Sum largest_of_quad(Sum x) const {
      for (int mask = 1; mask < 4; mask *= 2) x = machine_.larger(machine_.from_lane_xor(x, mask), x);
      return x;
    }

    Machine& machine_;
    const Task& task_;
    const int thread_;
    const Lane lane_;
    const Stored* q_ = nullptr;
    typename Engine::Queries kept_[row_tiles][sizes.kept_queries ? depths : 1];
    typename Engine::Sums o_[row_tiles][column_pieces];
    Sum m_[row_tiles][parts];
    typename Engine::RowSums l_[row_tiles];
  };
};

}  // namespace annulus::kernels::cuda
