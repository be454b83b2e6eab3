// One team's work in the forward pass: attention of a tile of query rows of one head to the item's keys, tile by tile
// as in FlashAttention (Dao et al. 2022), with the online softmax (Milakov and Gimelshein 2018).
//
//   scores S = (scale log2(e) Q) K^T      (query rows x key rows), base 2, changed by the rule; -inf for hidden pairs
//   m'                                    an even integer, at least m and the row's largest S_ij
//   P   = 2^(S - m' + bias),  l = l 2^(m - m') + sum_j P_ij,  acc = acc 2^(m - m') + P V
//
// Keys are added one after another in descending order of t, and powers of two are exact. So bits of results, like
// those of the host kernel, do not depend on how keys are cut into tiles and calls (State).
//
// Scratch memory holds a part of Q, a part of K or V, and S. Each thread keeps its blocks of acc (tile.hpp) in
// registers from the item's first key to its last. If a head is too large for that, acc stays in the State's memory,
// and is read and written once for each tile of keys.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/band.hpp"
#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/changed_scores.hpp"
#include "annulus/kernels/device/products.hpp"
#include "annulus/kernels/device/softmax.hpp"
#include "annulus/kernels/device/teams.hpp"
#include "annulus/kernels/device/work.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels::device {

/// Running softmax states of all rows: m, l, score_sum (B, rows, heads), acc (B, rows, heads, D).
template <class T>
struct StatePointers {
  T* m;
  T* l;
  T* score_sum;  // null: no entropy is wanted
  T* acc;
  Index rows;
  Index heads;

  /// Index of (batch, row, head) in m, l and score_sum.
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

/// `kept`: number of chunks of a head (tile.hpp) whose accumulators stay in registers: all chunks of the head, or 0.
template <class ExecSpace, class Tuning, class Storage, class T, int kept, class Rule>
class ForwardTeam {
 public:
  using Member = typename Teams<ExecSpace>::Member;
  using Tile = device::Tile<Tuning, T>;
  using Scores = Numbers<T, Tile::piece>;
  template <class Element>
  using Scratch = Kokkos::View<Element*, typename Teams<ExecSpace>::ScratchSpace, Kokkos::MemoryUnmanaged>;

  static constexpr Owner owner = Owner::rows;

  DeviceWorkView work;
  Index first_team;  ///< of this launch
  Operands operands;
  bool whole_pieces;  ///< what have_whole_pieces() returned
  int head_dim;
  StatePointers<T> state;
  T score_factor;  ///< scale * log2(e)
  T exponent_bias;
  Rule rule;  ///< how scores are changed (changed_scores.hpp)

  static std::size_t scratch_bytes() {
    return Scratch<T>::shmem_size(std::size_t(numbers)) + Scratch<Index>::shmem_size(std::size_t(indices));
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    Context c(*this, team, work.template tile_of<owner>(first_team + team.league_rank()));
    typename Tile::Output acc[kept > 0 ? kept : 1] = {};
    begin_rows(c);
    const auto acc_row = [&](int i) {
      return state.acc + state.at(c.tile.batch, c.query_row[i], c.tile.head) * head_dim;
    };
    c.products.template read_kept<kept>(acc, acc_row);
    const core::RowMap& keys = c.tile.item.key;
    const KeyRange seen = rows_between(work, keys, c.query_t_range.lowest - c.tile.item.band.left,
                                       c.query_t_range.highest + c.tile.item.band.right);
    for (Index first = keys.count - seen.end; first < keys.count - seen.begin; first += Tile::met) {
      const Index left = keys.count - seen.begin - first;
      const int count = left < Tile::met ? int(left) : Tile::met;
      const Visible visible = visible_of(c.tile.item.band, c.query_t_range, key_range(c, first, count));
      if (visible == Visible::none) continue;
      look_up(
          c, count, [&](int j) { return key_at(keys, first + j); }, c.key_row, c.key_t);
      const auto v = rows_of(operands.v, c.tile.batch, c.tile.item.kv_head, c.key_row, count, T(1));
      const Pairs pairs{visible == Visible::some,
                        [&](int i, int j) { return !is_hidden(c.tile.item.band, c.query_t[i], c.key_t[j]); }};
      multiply_scores(c, count);
      c.products.load_chunk(v, 0, 0, pairs.some_hidden);
      update_rows(c, count);
      c.products.template for_each_chunk<kept>(acc, acc_row, [&](int chunk, typename Tile::Output& sums) {
        shrink_sums(c, sums);
        c.products.add_chunk(v, chunk, chunk == 0, pairs, sums);
      });
    }
    c.products.template write_kept<kept>(acc, acc_row);
    store_rows(c);
  }

 private:
  // Scratch memory holds `numbers` Ts: own, met, s; m, new_m, shrink, l and score_sum for each query row; part_m for
  // each query row and row part; padding so that own begins at a multiple of 16 bytes. It also holds `indices` Indexes:
  // query_row and query_t for each query row, key_row and key_t for each key row, and not_finite.
  static constexpr int numbers =
      Tile::own_size + Tile::met_size + Tile::weight_size + (5 + Tuning::row_parts) * Tile::rows + Tile::piece;
  static constexpr int indices = 2 * (Tile::rows + Tile::met) + 1;

  /// The team's tile, and the addresses of its data in scratch memory.
  struct Context {
    const Member& team;
    TeamTile tile;
    CombRange query_t_range;
    Products<Tuning, Storage, T, Member> products;
    T* s;
    T* m;       // shift of the sums so far
    T* new_m;   // shift from this tile of keys on
    T* shrink;  // square root of 2^(m - new_m), because the power itself may underflow; 0 for empty states
    T* l;
    T* score_sum;
    T* part_m;  // largest score of a row in each of row_parts parts of the keys
    Index* query_row;
    Index* query_t;
    Index* key_row;
    Index* key_t;

    KOKKOS_FUNCTION Context(const ForwardTeam& kernel, const Member& member, const TeamTile& team_tile)
        : team(member), tile(team_tile), products{member,          kernel.head_dim, kernel.whole_pieces,
                                                  team_tile.count, nullptr,         nullptr,
                                                  nullptr,         nullptr} {
      const Scratch<Index> of_indices(team.team_scratch(0), std::size_t(indices));
      const Scratch<T> of_numbers(team.team_scratch(0), std::size_t(numbers));
      products.own = whole_piece(of_numbers.data());
      products.met = products.own + Tile::own_size;
      products.weights = s = products.met + Tile::met_size;
      m = s + Tile::weight_size;
      new_m = m + Tile::rows;
      shrink = new_m + Tile::rows;
      l = shrink + Tile::rows;
      score_sum = l + Tile::rows;
      part_m = score_sum + Tile::rows;
      query_row = of_indices.data();
      query_t = query_row + Tile::rows;
      key_row = query_t + Tile::rows;
      key_t = key_row + Tile::met;
      products.not_finite = key_t + Tile::met;
      query_t_range = {kernel.work.row_of(tile.item.query, tile.begin).t,
                       kernel.work.row_of(tile.item.query, tile.begin + tile.count - 1).t};
    }
  };

  /// Rows rows[0], ..., rows[count - 1] of one head of a tensor.
  KOKKOS_FUNCTION static auto rows_of(const core::TensorView& tensor, Index batch, Index head, const Index* rows,
                                      int count, T factor) {
    const Storage* const first = static_cast<const Storage*>(tensor.data) + number_of(tensor, batch, 0, head);
    const Index stride = tensor.row_stride;
    return RowsOf{count, factor, [=](int i) { return first + rows[i] * stride; }};
  }

  /// Row number `position` of a map in descending order of t, the order in which keys are added.
  KOKKOS_FUNCTION CombRow key_at(const core::RowMap& keys, Index position) const {
    return work.row_of(keys, keys.count - 1 - position);
  }

  /// Returns the lowest and highest comb index of the keys at positions first ... first + count - 1. If the band hides
  /// no key, both are 0, because visible_of() then needs neither.
  KOKKOS_FUNCTION CombRange key_range(const Context& c, Index first, int count) const {
    const core::WorkItem& item = c.tile.item;
    constexpr Index unbounded = core::Band::unbounded;
    if (item.band.left == unbounded && item.band.right == unbounded) return {0, 0};  // not used
    return {key_at(item.key, first + count - 1).t, key_at(item.key, first).t};
  }

  /// Writes rows row_of(0) ... row_of(count - 1) to `rows` and `ts`. Ends with a barrier, after which every thread can
  /// read `rows` and `ts`.
  template <class RowOf>
  KOKKOS_FUNCTION void look_up(const Context& c, int count, const RowOf& row_of, Index* rows, Index* ts) const {
    for (int i = c.team.team_rank(); i < count; i += c.team.team_size()) {
      const CombRow found = row_of(i);
      rows[i] = found.row;
      ts[i] = found.t;
    }
    c.team.team_barrier();
  }

  KOKKOS_FUNCTION void begin_rows(const Context& c) const {
    const TeamTile& tile = c.tile;
    if (c.team.team_rank() == 0) *c.products.not_finite = 0;
    look_up(
        c, tile.count, [&](int i) { return work.row_of(tile.item.query, tile.begin + i); }, c.query_row, c.query_t);
    for (int i = c.team.team_rank(); i < tile.count; i += c.team.team_size()) {
      const Index at = state.at(tile.batch, c.query_row[i], tile.head);
      c.m[i] = state.m[at];
      c.l[i] = state.l[at];
      if (has_entropy()) c.score_sum[i] = state.score_sum[at];
    }
  }

  KOKKOS_FUNCTION bool has_entropy() const { return state.score_sum != nullptr; }

  /// Writes the scores to s. Hidden pairs, and the padding to a whole piece, get -inf. Ends with a barrier, after which
  /// all threads have read K, so V may replace it.
  KOKKOS_FUNCTION void multiply_scores(const Context& c, int count) const {
    const TeamTile& tile = c.tile;
    typename Tile::Scores scores = {};
    c.products.add_scores(rows_of(operands.q, tile.batch, tile.head, c.query_row, tile.count, score_factor),
                          rows_of(operands.k, tile.batch, tile.item.kv_head, c.key_row, count, T(1)), scores);
    c.products.for_each_score(count, scores, [&](int i, int j, T score) {
      const Index query_t = c.query_t[i], key_t = c.key_t[j];
      if (j >= count || is_hidden(tile.item.band, query_t, key_t))
        score = T(-INFINITY);
      else if (i < tile.count)  // blocks may reach beyond the tile
        score = rule(tile.item, score, query_t, key_t, tile.head).score;
      c.s[i * Tile::weight_stride + j] = score;
    });
    c.team.team_barrier();
  }

  /// Turns scores into weights and updates m, l and shrink, with row_parts threads for each row. After the function's
  /// last barrier, every thread can read the weights, and the rows of V that load_chunk() loaded before the call.
  KOKKOS_FUNCTION void update_rows(const Context& c, int count) const {
    const int rows = c.tile.count;
    for_each_element(c.team, Tuning::row_parts, rows, [&](int part, int i) {
      T largest = T(-INFINITY);
      for_each_piece(c, count, part, i, [&](const Scores& in_memory) {
        const Scores s = in_memory;
        ANNULUS_UNROLL
        for (int n = 0; n < Tile::piece; ++n) largest = s.of[n] > largest ? s.of[n] : largest;
      });
      c.part_m[part * rows + i] = largest;
    });
    c.team.team_barrier();
    if (has_entropy()) {
      for (int i = c.team.team_rank(); i < rows; i += c.team.team_size()) add_scores(c, count, i);
      c.team.team_barrier();
    }
    for_each_element(c.team, Tuning::row_parts, rows, [&](int part, int i) { weigh(c, count, part, i); });
    c.team.team_barrier();
    // One thread per row adds up the row's weights, key after key. Other threads go on to the products with V.
    for (int i = c.team.team_rank(); i < rows; i += c.team.team_size()) {
      T sum = c.l[i] * c.shrink[i] * c.shrink[i];
      for (int j = 0; j < count; j += Tile::piece) {
        const auto weights = read<Tile::piece>(c.s + i * Tile::weight_stride + j);  // 0 beyond the last key
        ANNULUS_UNROLL
        for (int n = 0; n < Tile::piece; ++n) sum += weights.of[n];
      }
      c.l[i] = sum;
      c.m[i] = c.new_m[i];
    }
  }

  /// Calls visit(piece) for the pieces of row i's scores that are in part `part` of row_parts parts.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_piece(const Context& c, int count, int part, int i, const Visit& visit) const {
    for (int j = part * Tile::piece; j < count; j += Tuning::row_parts * Tile::piece)
      visit(*reinterpret_cast<Scores*>(c.s + i * Tile::weight_stride + j));
  }

  /// The shift of row i from this tile of keys on.
  KOKKOS_FUNCTION T new_shift(const Context& c, int i) const {
    T largest = T(-INFINITY);
    for (int other = 0; other < Tuning::row_parts; ++other) {
      const T m = c.part_m[other * c.tile.count + i];
      largest = m > largest ? m : largest;
    }
    return largest > c.m[i] ? shift_above(largest) : c.m[i];
  }
  /// The square root of 2^(before - after).
  KOKKOS_FUNCTION static T shrink_of(T before, T after) {
    return before == T(-INFINITY) ? T(0) : power_of_two((before - after) / 2);
  }

  /// Adds weight times score of each key to score_sum of row i, key after key, before weights replace the scores.
  KOKKOS_FUNCTION void add_scores(const Context& c, int count, int i) const {
    const T after = new_shift(c, i), shrink = shrink_of(c.m[i], after);
    const T* s = c.s + i * Tile::weight_stride;
    T sum = c.score_sum[i] * shrink * shrink;
    for (int j = 0; j < count; ++j) {
      if (s[j] > T(-INFINITY)) sum += weight_of(s[j], after, exponent_bias) * s[j];
    }
    c.score_sum[i] = sum;
  }

  /// Replaces the scores in part `part` of row i by weights. Part 0 also sets the row's new_m and shrink.
  KOKKOS_FUNCTION void weigh(const Context& c, int count, int part, int i) const {
    const T before = c.m[i], after = new_shift(c, i);
    for_each_piece(c, count, part, i, [&](Scores& in_memory) {
      Scores s = in_memory;
      ANNULUS_UNROLL
      for (int n = 0; n < Tile::piece; ++n) s.of[n] = weight_of(s.of[n], after, exponent_bias);
      in_memory = s;
    });
    if (part > 0) return;
    c.new_m[i] = after;
    c.shrink[i] = shrink_of(before, after);
  }

  KOKKOS_FUNCTION void shrink_sums(const Context& c, typename Tile::Output& sums) const {
    Tile::template for_each_block<Tile::columns>(c.team, [&](int slot, int row, int) {
      ANNULUS_UNROLL
      for (int r = 0; r < Tile::block_rows; ++r) {
        const T shrink = c.shrink[row + r];
        ANNULUS_UNROLL
        for (int b = 0; b < Tile::block_columns; ++b) {
          T& sum = sums[slot].of[r][b];
          sum = shrink == T(0) ? T(0) : sum * shrink * shrink;  // an empty state's accumulator may hold anything
        }
      }
    });
  }

  /// Needs no barrier, because each thread stores the rows whose m and l it has computed itself.
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
