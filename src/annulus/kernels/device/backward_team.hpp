// One team's work for gradients or statistics. The team computes scores again and makes them probabilities P with the
// normalizers of the forward pass. It owns a tile of rows of one side of an item (queries or keys), and goes through
// the rows of the other side ("rows met") tile by tile. X and X' have the owned rows, Y and Y' the rows met:
//
//   S = X Y^T      X, Y = Q, K if the team owns queries, K, Q if it owns keys. In this product alone, Q is multiplied
//                  by scale log2(e), as in the forward pass, so that scores have the same bits
//   W = X' Y'^T    X', Y' = dO, V if the team owns queries, V, dO if it owns keys
//   P = factor 2^(S - shift), 0 for hidden pairs (normalizer.hpp)  dS = P (output_scale W - delta)
//   queries owned:  dq += dS Y            keys owned:  dk += dS Y, dv += P Y'
//
// Statistics need S and E = 2^(S - shift): queries list keys of largest E, keys add up factor * E (StatisticViews).
//
// Each sum adds one row after another, keys in descending and queries in ascending order. dq continues the sums that
// are in memory. Sums of dk and dv have two levels (GradientViews). So bits depend neither on tiles nor on where lists
// are cut, except that bits of dk and dv depend on both if begun_dk has no data. If head sizes are small enough, a
// thread keeps its sums, or a block's terms, in registers from the first row to the last (tile.hpp). Scores and dS also
// stay in registers. Scratch memory holds parts of X or X' and of Y or Y', and first P, then dS (for statistics, E).
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/device/band.hpp"
#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/changed_scores.hpp"
#include "annulus/kernels/device/pair_sums.hpp"
#include "annulus/kernels/device/products.hpp"
#include "annulus/kernels/device/teams.hpp"
#include "annulus/kernels/device/tuning.hpp"
#include "annulus/kernels/device/work.hpp"
#include "annulus/kernels/multiplicity.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/numbers.hpp"
#include "annulus/kernels/top_list.hpp"

namespace annulus::kernels::device {

/// `kept`: number of chunks of a head (tile.hpp) whose sums stay in registers: all chunks of the head, or 0.
template <class ExecSpace, class Tuning, class Storage, class T, Owner kOwner, int kept, class Pass, class Rule>
class BackwardTeam {
 public:
  using Member = typename Teams<ExecSpace>::Member;
  using Tile = device::Tile<Tuning, T>;
  template <class Element>
  using Scratch = Kokkos::View<Element*, typename Teams<ExecSpace>::ScratchSpace, Kokkos::MemoryUnmanaged>;
  static constexpr Owner owner = kOwner;

  DeviceWorkView work;
  Index first_team;  ///< of this launch
  Pass pass;
  bool whole_pieces;  ///< what have_whole_pieces() returned
  int head_dim;
  T score_factor;  ///< scale * log2(e)
  Rule rule;       ///< changes S; dS is multiplied by the derivative (changed_scores.hpp)

  static std::size_t scratch_bytes() {
    return Scratch<T>::shmem_size(std::size_t(numbers)) + Scratch<Index>::shmem_size(std::size_t(indices));
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const Context c(*this, team, work.template tile_of<owner>(first_team + team.league_rank()));
    Sums sums;
    begin_rows(c);
    if constexpr (makes_gradients<Pass>) read_kept(c, sums);
    const core::WorkItem& item = c.tile.item;
    const KeyRange met = met_by_owned(c);
    int count = 0;
    for (Index first = met.begin; first < met.end; first += count) {
      count = tile_from(item, first, met.end);
      const Visible visible = visible_between(c, met_row(item, first).t, met_row(item, first + count - 1).t);
      if (visible == Visible::none) continue;
      look_up(c, c.met_rows, count, !owns_queries, [&](int j) { return met_row(item, first + j); });
      typename Tile::Scores scores = {};
      c.products.add_scores(own_rows(c, owns_queries ? pass.operands.q : pass.operands.k, query_factor(true)),
                            met_rows(c, owns_queries ? pass.operands.k : pass.operands.q, query_factor(false), count),
                            scores);
      if constexpr (makes_gradients<Pass>) {
        const EndOfBlock end = end_of_block(item, first, count);
        add_gradients(c, count, visible == Visible::some, end, scores, sums);
        if (end.is_here) end_kept(c, sums, end);
      } else {
        add_statistics(c, count, scores);
      }
    }
    if constexpr (makes_gradients<Pass>) write_kept(c, sums);
  }

 private:
  static constexpr bool owns_queries = owner == Owner::queries;
  static constexpr int queries = owns_queries ? Tile::rows : Tile::met;  // the most in a tile

  // Scratch memory holds `numbers` Ts (own, met, weights, the queries' shift, factor and delta, and padding so that own
  // begins at a multiple of 16 bytes), and `indices` Indexes (t, row, head of owned rows and of rows met, not_finite).
  static constexpr int numbers = Tile::own_size + Tile::met_size + Tile::weight_size + 3 * queries + Tile::piece;
  static constexpr int indices = 3 * (Tile::rows + Tile::met) + 1;

  /// Sums of the owned rows: dq, or dk and dv.
  struct Sums {
    typename Tile::Output dq_or_dk[kept + (kept == 0)] = {};  // an array needs at least one element
    typename Tile::Output dv[owns_queries ? 1 : kept + (kept == 0)] = {};
  };

  /// The rows of one side of a tile.
  struct Rows {
    Index* t;
    Index* row;
    Index* head;
  };

  /// The team's tile, and the addresses of its data in scratch memory.
  struct Context {
    const Member& team;
    TeamTile tile;
    CombRange owned_t;
    Products<Tuning, Storage, T, Member> products;
    T* shift;  // +inf where a row saw no key
    T* factor;
    T* delta;
    Rows own_rows;
    Rows met_rows;

    KOKKOS_FUNCTION Context(const BackwardTeam& kernel, const Member& member, const TeamTile& owned)
        : team(member), tile(owned), products{member,      kernel.head_dim, kernel.whole_pieces,
                                              owned.count, nullptr,         nullptr,
                                              nullptr,     nullptr} {
      const Scratch<Index> of_indices(team.team_scratch(0), std::size_t(indices));
      const Scratch<T> of_numbers(team.team_scratch(0), std::size_t(numbers));
      products.own = whole_piece(of_numbers.data());
      products.met = products.own + Tile::own_size;
      products.weights = products.met + Tile::met_size;
      shift = products.weights + Tile::weight_size;
      factor = shift + queries;
      delta = factor + queries;
      Index* const own = of_indices.data();
      own_rows = {own, own + Tile::rows, own + 2 * Tile::rows};
      Index* const met = own + 3 * Tile::rows;
      met_rows = {met, met + Tile::met, met + 2 * Tile::met};
      products.not_finite = met + 3 * Tile::met;
      owned_t = {kernel.owned_row(tile.item, tile.begin).t, kernel.owned_row(tile.item, tile.begin + tile.count - 1).t};
    }
  };

  KOKKOS_FUNCTION ItemRow owned_row(const core::WorkItem& item, Index number) const {
    return owns_queries ? work.query_of(item, number) : work.key_of(item, number);
  }
  /// Row `number` of the rows met, in the order of additions: keys descending, queries ascending.
  KOKKOS_FUNCTION ItemRow met_row(const core::WorkItem& item, Index number) const {
    return owns_queries ? work.key_of(item, item.key.count - 1 - number) : work.query_of(item, number);
  }

  /// True if a block of queries may continue in other lists (GradientViews).
  KOKKOS_FUNCTION bool is_in_blocks() const {
    if constexpr (makes_gradients<Pass> && !owns_queries) return pass.sums.begun_dk.data != nullptr;
    return false;
  }
  /// Returns how many rows the tile that begins at `first` has. If is_in_blocks(), all of them belong to one block.
  KOKKOS_FUNCTION int tile_from(const core::WorkItem& item, Index first, Index all) const {
    const Index left = all - first;
    int low = 1, high = left < Tile::met ? int(left) : Tile::met;
    if (!is_in_blocks()) return high;
    const Index end = (met_row(item, first).t / sum_rows + 1) * sum_rows;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      const bool inside = met_row(item, first + middle - 1).t < end;
      (inside ? low : high) = inside ? middle : middle - 1;
    }
    return low;
  }
  /// is_here: the last row of a tile ends a block. t: that row's comb index if is_in_blocks(), otherwise 0. If
  /// is_in_blocks() is false, a block is one tile if terms are in memory, and about three if they are in registers.
  struct EndOfBlock {
    bool is_here;
    Index t;
  };
  KOKKOS_FUNCTION EndOfBlock end_of_block(const core::WorkItem& item, Index first, int count) const {
    if (owns_queries) return {false, 0};
    if (!is_in_blocks()) return {kept == 0 || first / Tile::met % 3 == 2, 0};
    const Index t = met_row(item, first + count - 1).t;
    return {(t + 1) % sum_rows == 0 && (first + count) % item.head_count == 0, t};
  }
  /// True if a block ends for owned key i. If is_in_blocks(), it ends only for keys that the block's last row sees.
  KOKKOS_FUNCTION bool ends(const Context& c, int i, const EndOfBlock& end) const {
    return end.is_here && (!is_in_blocks() || !is_hidden(c.tile.item.band, end.t, c.own_rows.t[i]));
  }

  /// Returns a range of row numbers, as in met_row(), with all rows that see an owned row or that an owned row sees.
  KOKKOS_FUNCTION KeyRange met_by_owned(const Context& c) const {
    const core::WorkItem& item = c.tile.item;
    const core::Band& band = item.band;
    const Index below = owns_queries ? band.left : band.right, above = owns_queries ? band.right : band.left;
    const KeyRange rows =
        rows_between(work, owns_queries ? item.key : item.query, c.owned_t.lowest - below, c.owned_t.highest + above);
    if (owns_queries) return {item.key.count - rows.end, item.key.count - rows.begin};
    return {rows.begin * item.head_count, rows.end * item.head_count};
  }

  /// How many pairs of owned rows and rows met are visible: none, some or all. The rows met have comb indices from
  /// `first` to `last`, in the order of met_row().
  KOKKOS_FUNCTION Visible visible_between(const Context& c, Index first, Index last) const {
    return owns_queries ? visible_of(c.tile.item.band, c.owned_t, {last, first})
                        : visible_of(c.tile.item.band, {first, last}, c.owned_t);
  }

  KOKKOS_FUNCTION bool hidden(const Context& c, int i, int j) const {
    return owns_queries ? is_hidden(c.tile.item.band, c.own_rows.t[i], c.met_rows.t[j])
                        : is_hidden(c.tile.item.band, c.met_rows.t[j], c.own_rows.t[i]);
  }

  /// Returns the score of a pair inside the tile after the rule has changed it.
  KOKKOS_FUNCTION ChangedScore<T> changed_score(const Context& c, int i, int j, T score) const {
    const Index own_t = c.own_rows.t[i], met_t = c.met_rows.t[j];
    return rule(c.tile.item, score, owns_queries ? own_t : met_t, owns_queries ? met_t : own_t,
                owns_queries ? c.own_rows.head[i] : c.met_rows.head[j]);
  }
  /// True if the pair (i, j) lies beyond the tile, where a thread's block may reach. PlainScores need no check. Other
  /// rules need it, because they read tables at the pair's row numbers.
  KOKKOS_FUNCTION bool is_beyond(const Context& c, int count, int i, int j) const {
    return !std::is_same_v<Rule, PlainScores> && (i >= c.tile.count || j >= count);
  }

  /// Fills `rows`, and for queries also shift, factor and delta, with rows 0, 1, ... of a tile. Ends with a barrier,
  /// after which every thread can read them.
  template <class RowAt>
  KOKKOS_FUNCTION void look_up(const Context& c, const Rows& rows, int count, bool queries, const RowAt& row_at) const {
    for (int i = c.team.team_rank(); i < count; i += c.team.team_size()) {
      const ItemRow found = row_at(i);
      rows.t[i] = found.t;
      rows.row[i] = found.row;
      rows.head[i] = found.head;
      if (!queries) continue;
      const core::TensorView& normalizers = pass.operands.normalizers;
      const Index at = number_of(normalizers, c.tile.batch, found.row, found.head);
      const Normalizer<T> normalizer =
          with_finite_factor<T>({load_number<T>(normalizers, at), load_number<T>(normalizers, at + 1)});
      c.shift[i] = normalizer.shift;
      c.factor[i] = normalizer.factor;
      if constexpr (makes_gradients<Pass>) {
        const core::TensorView& delta = pass.operands.delta;
        const Index at_delta = number_of(delta, c.tile.batch, found.row, found.head);
        c.delta[i] = normalizer.factor == T(0) ? T(0) : load_number<T>(delta, at_delta);
      }
    }
    c.team.team_barrier();
  }

  KOKKOS_FUNCTION void begin_rows(const Context& c) const {
    if (c.team.team_rank() == 0) *c.products.not_finite = 0;
    look_up(c, c.own_rows, c.tile.count, owns_queries, [&](int i) { return owned_row(c.tile.item, c.tile.begin + i); });
  }

  /// Returns the factor by which owned rows (`owned`) or rows met are multiplied for scores. For keys it is 1.
  KOKKOS_FUNCTION T query_factor(bool owned) const { return owned == owns_queries ? score_factor : T(1); }

  KOKKOS_FUNCTION static auto rows_of(const core::TensorView& tensor, Index batch, const Rows& rows, int count,
                                      T factor) {
    return RowsOf{count, factor, [=](int i) {
                    return static_cast<const Storage*>(tensor.data) +
                           number_of(tensor, batch, rows.row[i], rows.head[i]);
                  }};
  }
  KOKKOS_FUNCTION static auto own_rows(const Context& c, const core::TensorView& tensor, T factor) {
    return rows_of(tensor, c.tile.batch, c.own_rows, c.tile.count, factor);
  }
  KOKKOS_FUNCTION static auto met_rows(const Context& c, const core::TensorView& tensor, T factor, int count) {
    return rows_of(tensor, c.tile.batch, c.met_rows, count, factor);
  }

  /// Returns a function that finds the sums of owned row i.
  KOKKOS_FUNCTION static auto sums_in(const Context& c, const core::TensorView& gradient) {
    return [&](int i) {
      return static_cast<T*>(gradient.data) + number_of(gradient, c.tile.batch, c.own_rows.row[i], c.own_rows.head[i]);
    };
  }
  /// The two levels of the sums of dk (which = 0) or dv.
  KOKKOS_FUNCTION auto levels_of(const Context& c, int which, const EndOfBlock& end) const {
    const GradientViews& g = pass.sums;
    return TwoLevels{is_in_blocks(), sums_in(c, which == 0 ? g.dk : g.dv),
                     sums_in(c, which == 0 ? g.begun_dk : g.begun_dv), [&](int i) { return ends(c, i, end); }};
  }
  KOKKOS_FUNCTION void read_kept(const Context& c, Sums& sums) const {
    if constexpr (owns_queries) {
      c.products.template read_kept<kept>(sums.dq_or_dk, sums_in(c, pass.sums.dq));
    } else if (is_in_blocks()) {
      c.products.template read_kept<kept>(sums.dq_or_dk, sums_in(c, pass.sums.begun_dk));
      c.products.template read_kept<kept>(sums.dv, sums_in(c, pass.sums.begun_dv));
    }
  }
  KOKKOS_FUNCTION void end_kept(const Context& c, Sums& sums, const EndOfBlock& end) const {
    if constexpr (!owns_queries) {
      c.products.template end_kept<kept>(sums.dq_or_dk, levels_of(c, 0, end));
      c.products.template end_kept<kept>(sums.dv, levels_of(c, 1, end));
    }
  }
  KOKKOS_FUNCTION void write_kept(const Context& c, Sums& sums) const {
    if constexpr (owns_queries) {
      c.products.template write_kept<kept>(sums.dq_or_dk, sums_in(c, pass.sums.dq));
    } else if (is_in_blocks()) {
      c.products.template write_kept<kept>(sums.dq_or_dk, sums_in(c, pass.sums.begun_dk));
      c.products.template write_kept<kept>(sums.dv, sums_in(c, pass.sums.begun_dv));
    } else {
      end_kept(c, sums, {true, 0});
    }
  }

  /// Adds the terms of the rows met to dq, or to dk and dv. Each thread turns the scores that it has computed into
  /// weights and dS. The weights, and later dS, use the same scratch memory.
  KOKKOS_FUNCTION void add_gradients(const Context& c, int count, bool some_hidden, const EndOfBlock& end,
                                     typename Tile::Scores& scores, Sums& sums) const {
    const auto& operands = pass.operands;
    typename Tile::Scores ds = {};
    c.products.add_scores(own_rows(c, owns_queries ? operands.dout : operands.v, T(1)),
                          met_rows(c, owns_queries ? operands.v : operands.dout, T(1), count), ds);
    T* const weights = c.products.weights;
    const T output_scale = T(operands.output_scale);
    c.products.for_each_score_block(count, [&](int slot, int row, int column) {
      ANNULUS_UNROLL
      for (int r = 0; r < Tile::block_rows; ++r) {
        ANNULUS_UNROLL
        for (int b = 0; b < Tile::block_columns; ++b) {
          const int i = row + r, j = Tile::score_column(column, b), query = owns_queries ? i : j;
          const bool none = hidden(c, i, j) || is_beyond(c, count, i, j);
          const ChangedScore<T> changed = none ? ChangedScore<T>{} : changed_score(c, i, j, scores[slot].of[r][b]);
          const T weight = none ? T(0) : c.factor[query] * core::exp2(changed.score - c.shift[query]);
          const T dp = output_scale * ds[slot].of[r][b] - c.delta[query];
          ds[slot].of[r][b] = none ? T(0) : weight * dp * changed.derivative;
          if constexpr (!owns_queries) weights[i * Tile::weight_stride + j] = weight;
        }
      }
    });
    const Pairs pairs{some_hidden, [&](int i, int j) { return !hidden(c, i, j); }};
    if constexpr (!owns_queries) {
      const auto dout = met_rows(c, operands.dout, T(1), count);
      c.products.template for_each_chunk_of_terms<kept>(sums.dv, levels_of(c, 1, end), [&](int chunk, auto& here) {
        c.products.add_chunk(dout, chunk, false, pairs, here);
      });
      c.team.team_barrier();  // all threads have read the weights
    }
    c.products.for_each_score(count, ds,
                              [&](int i, int j, T number) { weights[i * Tile::weight_stride + j] = number; });
    const auto met = met_rows(c, owns_queries ? operands.k : operands.q, T(1), count);
    const auto add = [&](int chunk, auto& here) { c.products.add_chunk(met, chunk, false, pairs, here); };
    if constexpr (owns_queries)
      c.products.template for_each_chunk<kept>(sums.dq_or_dk, sums_in(c, pass.sums.dq), add);
    else
      c.products.template for_each_chunk_of_terms<kept>(sums.dq_or_dk, levels_of(c, 0, end), add);
  }

  /// Adds the rows met to the owned queries' lists, or to what the owned keys receive. One thread adds for each owned
  /// row. After the first barrier all weights can be read. After the second barrier the rows met can be replaced.
  KOKKOS_FUNCTION void add_statistics(const Context& c, int count, typename Tile::Scores& scores) const {
    c.products.for_each_score(count, scores, [&](int i, int j, T score) {
      const bool none = hidden(c, i, j) || is_beyond(c, count, i, j);
      const T shift = c.shift[owns_queries ? i : j];
      c.products.weights[i * Tile::weight_stride + j] =
          none ? T(0) : core::exp2(changed_score(c, i, j, score).score - shift);
    });
    c.team.team_barrier();
    for (int i = c.team.team_rank(); i < c.tile.count; i += c.team.team_size()) {
      if constexpr (owns_queries) {
        list_keys(c, count, i);
      } else {
        receive(c, count, i);
      }
    }
    c.team.team_barrier();
  }

  KOKKOS_FUNCTION void receive(const Context& c, int count, int i) const {
    const core::TensorView& received = pass.sums.received;
    double* const sums =
        static_cast<double*>(received.data) + number_of(received, c.tile.batch, c.own_rows.row[i], c.own_rows.head[i]);
    for (int j = 0; j < count; ++j) {
      const Index slot = (pass.operands.first_head + c.met_rows.head[j]) % pass.operands.slots;
      sums[slot] += double(c.factor[j]) * double(c.products.weights[i * Tile::weight_stride + j]);
    }
  }

  KOKKOS_FUNCTION void list_keys(const Context& c, int count, int i) const {
    const core::WorkItem& item = c.tile.item;
    const Index head = c.own_rows.head[i], size = pass.sums.top_keys, pairs = pass.operands.pairs;
    const Index at = ((c.tile.batch * pass.rows + c.own_rows.row[i]) * pass.shape.heads + head) * size;
    const TopList<T> list{static_cast<T*>(pass.sums.top_weights) + at, pass.sums.top_rows + at, size};
    const auto row_of = [&](Index t) { return item.first_row + t * item.row_step; };
    const core::HeadPair* const of_head = pass.operands.head_pairs + head * pairs;
    const Index x = row_of(c.own_rows.t[i]);
    const int most = pairs == 1 ? 1 : multiplicity(of_head, pairs, x, x);
    const T skip_factor = TopList<T>::skip_factor(most);
    for (int j = 0; j < count; ++j) {
      const T weight = c.products.weights[i * Tile::weight_stride + j];
      if (!(weight > list.last() * skip_factor)) continue;
      const Index y = row_of(c.met_rows.t[j]);
      const int times = most == 1 ? 1 : multiplicity(of_head, pairs, x, y);
      list.admit(T(times) * weight, item.document + y);
    }
  }
};

}  // namespace annulus::kernels::device
