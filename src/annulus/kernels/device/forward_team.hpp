// One team's work in the forward pass: a tile of query rows of one head against all key rows of its item, tile by tile
// as in FlashAttention (Dao et al. 2022), with the online softmax (Milakov and Gimelshein 2018).
//
//   scores S = (scale log2(e) Q) K^T      (query rows x key rows), base 2, hidden ones -inf
//   m'                                    an even integer, no less than m and all S_ij of the row
//   P   = 2^(S - m' + bias),  l = l 2^(m - m') + sum_j P_ij,  acc = acc 2^(m - m') + P V
//
// Keys come in descending order of t and are added one after another to what was there, and the powers of two are
// exact: like the host kernel's, results do not depend on how keys are cut into tiles and calls (State).
//
// Scratch memory holds Q, S and, one after the other in the same place, K (transposed) and V, all in the accumulation
// type T: storage types end at packing. acc stays in the State's own memory, visited once per tile of keys.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/mask.hpp"
#include "annulus/kernels/device/softmax.hpp"
#include "annulus/kernels/device/tuning.hpp"
#include "annulus/kernels/device/work.hpp"

namespace annulus::kernels::device {

/// Running softmax states of all rows: m, l, score_sum (B, rows, heads), acc (B, rows, heads, D).
template <class T>
struct StatePointers {
  T* m;
  T* l;
  T* score_sum;  // or none
  T* acc;
  Index rows;
  Index heads;

  /// Number of (batch, row, head).
  KOKKOS_FUNCTION Index at(Index batch, Index row, Index head) const { return (batch * rows + row) * heads + head; }
};

template <class T>
StatePointers<T> pointers_of(const State& state) {
  return {static_cast<T*>(state.m.data()),
          static_cast<T*>(state.l.data()),
          static_cast<T*>(state.score_sum.data()),
          static_cast<T*>(state.acc.data()),
          state.rows,
          state.shape.heads};
}

/// Sizes and offsets of a team's scratch memory.
///   numbers   q (query rows x D), kv (D x key rows, then key rows x D), s (query rows x key rows),
///             m, fresh_m, shrink, l, score_sum (query rows), part_m (row_parts x query rows)
///   indices   query_row, query_t (query rows), key_row, key_t (key rows)
template <class Tuning>
struct ScratchLayout {
  TileSize tile;
  int head_dim;

  KOKKOS_FUNCTION int q_stride() const { return head_dim + Tuning::pad; }
  KOKKOS_FUNCTION int k_stride() const { return tile.met + Tuning::pad; }
  KOKKOS_FUNCTION int v_stride() const { return round_up(head_dim, Tuning::block_columns); }
  KOKKOS_FUNCTION int s_stride() const { return tile.met + Tuning::pad; }

  KOKKOS_FUNCTION int q_size() const { return tile.owned * q_stride(); }
  KOKKOS_FUNCTION int kv_size() const {
    const int k = head_dim * k_stride();
    const int v = tile.met * v_stride();
    return k > v ? k : v;
  }
  KOKKOS_FUNCTION int s_size() const { return tile.owned * s_stride(); }
  KOKKOS_FUNCTION int numbers() const { return q_size() + kv_size() + s_size() + (5 + Tuning::row_parts) * tile.owned; }
  KOKKOS_FUNCTION int indices() const { return 2 * (tile.owned + tile.met); }
};

template <class ExecSpace, class Tuning, class Storage, class T>
class ForwardTeam {
 public:
  using Policy = Kokkos::TeamPolicy<ExecSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  template <class Element>
  using Scratch = Kokkos::View<Element*, typename ExecSpace::scratch_memory_space, Kokkos::MemoryUnmanaged>;

  static constexpr Owner owner = Owner::rows;
  static constexpr auto& tiles = Tuning::tiles;

  DeviceWorkView work;
  Index first_team;  ///< of this launch
  Operands operands;
  StatePointers<T> state;
  T score_factor;  ///< scale * log2(e)
  T exponent_bias;
  ScratchLayout<Tuning> layout;

  static std::size_t scratch_bytes(const ScratchLayout<Tuning>& layout) {
    return Scratch<T>::shmem_size(std::size_t(layout.numbers())) +
           Scratch<Index>::shmem_size(std::size_t(layout.indices()));
  }

  /// One team's work, its scratch memory in this level: known to the compiler, because each access to memory that may
  /// be of either kind costs a GPU several instructions.
  template <int level>
  KOKKOS_FUNCTION void run(const Member& team) const {
    Context c(*this, team.team_scratch(level), team, work.template tile_of<owner>(first_team + team.league_rank()));
    load_queries(c);
    const core::RowMap& keys = c.tile.item.key;
    for (Index first = 0; first < keys.count; first += layout.tile.met) {
      const Index left = keys.count - first;
      const int count = left < layout.tile.met ? int(left) : layout.tile.met;
      if (keys_are_hidden(c, first, count)) continue;
      load_keys(c, first, count);
      multiply_scores(c, count);
      update_rows(c, count);
      add_values(c, count);
    }
    store_rows(c);
  }

 private:
  /// Where this team finds its things.
  struct Context {
    const Member& team;
    TeamTile tile;
    Index first_query_t;
    Index last_query_t;
    T* q;
    T* kv;
    T* s;
    T* m;        // shift of the sums so far
    T* fresh_m;  // shift from this tile of keys on
    T* shrink;   // the square root of 2^(m - fresh_m), which may be too small for a number itself; 0 while empty
    T* l;
    T* score_sum;
    T* part_m;  // largest score of a row among every row_parts-th key
    Index* query_row;
    Index* query_t;
    Index* key_row;
    Index* key_t;

    template <class Memory>
    KOKKOS_FUNCTION Context(const ForwardTeam& kernel, const Memory& memory, const Member& member,
                            const TeamTile& team_tile)
        : team(member), tile(team_tile) {
      const ScratchLayout<Tuning>& layout = kernel.layout;
      const Scratch<T> numbers(memory, std::size_t(layout.numbers()));
      const Scratch<Index> indices(memory, std::size_t(layout.indices()));
      const int rows = layout.tile.owned;
      q = numbers.data();
      kv = q + layout.q_size();
      s = kv + layout.kv_size();
      m = s + layout.s_size();
      fresh_m = m + rows;
      shrink = fresh_m + rows;
      l = shrink + rows;
      score_sum = l + rows;
      part_m = score_sum + rows;
      query_row = indices.data();
      query_t = query_row + rows;
      key_row = query_t + rows;
      key_t = key_row + layout.tile.met;
      first_query_t = kernel.work.row_of(tile.item.query, tile.begin).t;
      last_query_t = kernel.work.row_of(tile.item.query, tile.begin + tile.count - 1).t;
    }
  };

  /// Row 0 of one head.
  KOKKOS_FUNCTION static const Storage* head_of(const core::TensorView& tensor, Index batch, Index head) {
    return static_cast<const Storage*>(tensor.data) + batch * tensor.batch_stride + head * tensor.head_stride;
  }

  /// Row number `position` of a map of keys taken in descending order of t.
  KOKKOS_FUNCTION CombRow key_at(const core::RowMap& keys, Index position) const {
    return work.row_of(keys, keys.count - 1 - position);
  }

  /// Whether no query row sees any of the keys at positions first ... first + count - 1, which descend in t.
  KOKKOS_FUNCTION bool keys_are_hidden(const Context& c, Index first, int count) const {
    const core::WorkItem& item = c.tile.item;
    if (item.mask == core::Mask::all) return false;  // without looking up rows
    return !any_visible(item.mask, {c.first_query_t, c.last_query_t},
                        {key_at(item.key, first + count - 1).t, key_at(item.key, first).t});
  }

  /// Looks up `count` rows, row_of(0), row_of(1), ... Blocks reach up to `padded` rows: the last row stands in for
  /// those beyond the tile, whose results are not read.
  template <class RowOf>
  KOKKOS_FUNCTION void look_up(const Context& c, int count, int padded, const RowOf& row_of, Index* rows,
                               Index* ts) const {
    for (int i = c.team.team_rank(); i < padded; i += c.team.team_size()) {
      const CombRow found = row_of(i < count ? i : count - 1);
      rows[i] = found.row;
      ts[i] = found.t;
    }
  }

  KOKKOS_FUNCTION void load_queries(const Context& c) const {
    const TeamTile& tile = c.tile;
    const int padded = round_up(tile.count, Tuning::block_rows);
    const auto query = [&](int i) { return work.row_of(tile.item.query, tile.begin + i); };
    look_up(c, tile.count, padded, query, c.query_row, c.query_t);
    c.team.team_barrier();
    const core::TensorView& q = operands.q;
    const Storage* from = head_of(q, tile.batch, tile.head);
    for_each_element(c.team, padded, layout.head_dim, [&](int i, int d) {
      c.q[i * layout.q_stride() + d] = score_factor * core::load_as<T>(from[c.query_row[i] * q.row_stride + d]);
    });
    for (int i = c.team.team_rank(); i < tile.count; i += c.team.team_size()) {
      const Index at = state.at(tile.batch, c.query_row[i], tile.head);
      c.m[i] = state.m[at];
      c.l[i] = state.l[at];
      if (has_entropy()) c.score_sum[i] = state.score_sum[at];
    }
  }

  KOKKOS_FUNCTION bool has_entropy() const { return state.score_sum != nullptr; }

  /// K tile, transposed: kv[d][j].
  KOKKOS_FUNCTION void load_keys(const Context& c, Index first, int count) const {
    const int padded = round_up(count, Tuning::block_columns);
    look_up(
        c, count, padded, [&](int j) { return key_at(c.tile.item.key, first + j); }, c.key_row, c.key_t);
    c.team.team_barrier();  // the rows are looked up, and the last tile's V is no longer read
    const Storage* from = head_of(operands.k, c.tile.batch, c.tile.item.kv_head);
    for_each_element(c.team, padded, layout.head_dim, [&](int j, int d) {
      c.kv[d * layout.k_stride() + j] = core::load_as<T>(from[c.key_row[j] * operands.k.row_stride + d]);
    });
    c.team.team_barrier();
  }

  KOKKOS_FUNCTION void multiply_scores(const Context& c, int count) const {
    const core::Mask mask = c.tile.item.mask;
    for_each_block<Tuning>(c.team, c.tile.count, count, [&](int row, int column, int step) {
      T sum[Tuning::block_rows][Tuning::block_columns] = {};
      multiply_block<Tuning::columns_side_by_side>(sum, c.q + row * layout.q_stride(), layout.q_stride(), c.kv + column,
                                                   layout.k_stride(), step, layout.head_dim);
      for (int r = 0; r < Tuning::block_rows; ++r) {
        for (int b = 0; b < Tuning::block_columns; ++b) {
          const int i = row + r;
          const int j = column + b * step;
          const bool hidden = is_hidden(mask, c.query_t[i], c.key_t[j]);
          c.s[i * layout.s_stride() + j] = hidden ? T(-INFINITY) : sum[r][b];
        }
      }
    });
    c.team.team_barrier();
  }

  /// Turns scores into weights and brings m, l and shrink up to date; row_parts threads share a row. The V tile takes
  /// the place of K meanwhile.
  KOKKOS_FUNCTION void update_rows(const Context& c, int count) const {
    const int rows = c.tile.count;
    load_values(c, count);
    for_each_element(c.team, Tuning::row_parts, rows, [&](int part, int i) {
      const T* s = c.s + i * layout.s_stride();
      T largest = T(-INFINITY);
      for (int j = part; j < count; j += Tuning::row_parts) largest = s[j] > largest ? s[j] : largest;
      c.part_m[part * rows + i] = largest;
    });
    c.team.team_barrier();
    if (has_entropy()) {
      for (int i = c.team.team_rank(); i < rows; i += c.team.team_size()) add_scores(c, count, i);
      c.team.team_barrier();
    }
    for_each_element(c.team, Tuning::row_parts, rows, [&](int part, int i) { weigh(c, count, part, i); });
    c.team.team_barrier();
    // Key after key, by one thread: the others go on to the values.
    for (int i = c.team.team_rank(); i < rows; i += c.team.team_size()) {
      const T* s = c.s + i * layout.s_stride();
      T sum = c.l[i] * c.shrink[i] * c.shrink[i];
      for (int j = 0; j < count; ++j) sum += s[j];
      c.l[i] = sum;
      c.m[i] = c.fresh_m[i];
    }
  }

  /// Shift of row i from this tile of keys on.
  KOKKOS_FUNCTION T fresh_shift(const Context& c, int i) const {
    T largest = T(-INFINITY);
    for (int other = 0; other < Tuning::row_parts; ++other) {
      const T m = c.part_m[other * c.tile.count + i];
      largest = m > largest ? m : largest;
    }
    return largest > c.m[i] ? shift_above(largest) : c.m[i];
  }
  /// The square root of 2^(before - fresh).
  KOKKOS_FUNCTION static T shrink_of(T before, T fresh) {
    return before == T(-INFINITY) ? T(0) : power_of_two((before - fresh) / 2);
  }

  /// Weights times scores of row i, key after key, while the scores still are there.
  KOKKOS_FUNCTION void add_scores(const Context& c, int count, int i) const {
    const T fresh = fresh_shift(c, i), shrink = shrink_of(c.m[i], fresh);
    const T* s = c.s + i * layout.s_stride();
    T sum = c.score_sum[i] * shrink * shrink;
    for (int j = 0; j < count; ++j) {
      if (s[j] > T(-INFINITY)) sum += weight_of(s[j], fresh, exponent_bias) * s[j];
    }
    c.score_sum[i] = sum;
  }

  /// Every row_parts-th weight of row i, from number `part` on.
  KOKKOS_FUNCTION void weigh(const Context& c, int count, int part, int i) const {
    const T before = c.m[i], fresh = fresh_shift(c, i);
    T* s = c.s + i * layout.s_stride();
    for (int j = part; j < count; j += Tuning::row_parts) s[j] = weight_of(s[j], fresh, exponent_bias);
    if (part > 0) return;
    c.fresh_m[i] = fresh;
    c.shrink[i] = shrink_of(before, fresh);
  }

  /// V tile: kv[j][d], columns up to a whole block filled with zeros.
  KOKKOS_FUNCTION void load_values(const Context& c, int count) const {
    const Storage* from = head_of(operands.v, c.tile.batch, c.tile.item.kv_head);
    for_each_element(c.team, count, layout.v_stride(), [&](int j, int d) {
      const bool inside = d < layout.head_dim;
      c.kv[j * layout.v_stride() + d] =
          inside ? core::load_as<T>(from[c.key_row[j] * operands.v.row_stride + d]) : T(0);
    });
  }

  /// Calls visit(r, b, shrink of the row, acc) for the accumulators of a block that exist.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_accumulator(const Context& c, int row, int column, int step, const Visit& visit) const {
    for (int r = 0; r < Tuning::block_rows; ++r) {
      const int i = row + r;
      if (i >= c.tile.count) break;
      T* acc = state.acc + state.at(c.tile.batch, c.query_row[i], c.tile.head) * layout.head_dim;
      for (int b = 0; b < Tuning::block_columns; ++b) {
        const int d = column + b * step;
        if (d < layout.head_dim) visit(r, b, c.shrink[i], acc[d]);
      }
    }
  }

  KOKKOS_FUNCTION void add_values(const Context& c, int count) const {
    for_each_block<Tuning>(c.team, c.tile.count, layout.head_dim, [&](int row, int column, int step) {
      T sum[Tuning::block_rows][Tuning::block_columns] = {};
      for_each_accumulator(c, row, column, step, [&](int r, int b, T shrink, T& acc) {
        // An empty state's accumulator may hold anything.
        sum[r][b] = shrink == T(0) ? T(0) : acc * shrink * shrink;
      });
      multiply_block<Tuning::columns_side_by_side>(sum, c.s + row * layout.s_stride(), layout.s_stride(), c.kv + column,
                                                   layout.v_stride(), step, count);
      for_each_accumulator(c, row, column, step, [&](int r, int b, T, T& acc) { acc = sum[r][b]; });
    });
  }

  /// No barrier: every thread stores the rows whose m and l it brought up to date itself.
  KOKKOS_FUNCTION void store_rows(const Context& c) const {
    for (int i = c.team.team_rank(); i < c.tile.count; i += c.team.team_size()) {
      const Index at = state.at(c.tile.batch, c.query_row[i], c.tile.head);
      state.m[at] = c.m[i];
      state.l[at] = c.l[i];
      if (has_entropy()) state.score_sum[at] = c.score_sum[i];
    }
  }
};

}  // namespace annulus::kernels::device
