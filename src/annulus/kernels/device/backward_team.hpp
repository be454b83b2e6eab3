// One team's work where keys and queries of an item meet once their LSE is known, for gradients or for statistics: a
// tile of rows that it owns against all rows of the other side of its item, tile by tile. For owned rows i and rows j
// that it meets, they hold:
//
//   S = X Y^T      X, Y = Q, K where the team owns queries, K, Q where it owns keys; Q times scale log2(e), as in the
//                  forward pass, so that scores have its bits
//   W = X' Y'^T    X', Y' = dO, V and V, dO
//   P = factor 2^(S - shift), hidden ones 0 (normalizer.hpp)       dS = P (output_scale W - delta)
//   queries owned:  dq += dS Y            keys owned:  dk += dS Y, dv += P Y'
//
// Statistics need S and E = 2^(S - shift) only: queries list the keys of largest E, keys add up factor E of each head.
//
// Each sum goes on from the accumulator in memory and takes one row after another, keys met descending, queries met
// ascending: its bits depend neither on the tiles nor on where lists are cut. Scratch memory holds X, X', P, dS and,
// one after the other in the same place, Y and Y' transposed, then Y and Y' as they are; for statistics X, E and Y.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/mask.hpp"
#include "annulus/kernels/device/tuning.hpp"
#include "annulus/kernels/device/work.hpp"
#include "annulus/kernels/multiplicity.hpp"
#include "annulus/kernels/numbers.hpp"
#include "annulus/kernels/statistics.hpp"
#include "annulus/kernels/top_list.hpp"

namespace annulus::kernels::device {

/// What the pairs of an item give: each has its operands, and where it adds them up.
struct Gradients {
  BackwardOperands operands;
  GradientViews sums;
};
struct Probabilities {
  StatisticOperands operands;
  StatisticViews sums;
  core::Shape shape;
  Index rows;  ///< query rows
};
template <class Makes>
constexpr bool makes_gradients = std::is_same_v<Makes, Gradients>;

/// Sizes and offsets of a team's scratch memory.
///   numbers   own, own_too (owned x D; gradients only), met (D x met, then met x D), p, ds (owned x met; one place
///             where queries are owned, which need no p, and for statistics, which need no dS), shift, factor, delta
///             (of the side that is queries)
///   indices   t, row, head of the owned rows and of those met
template <class Tuning, Owner owner, class Makes>
struct BackwardLayout {
  TileSize tile;
  int head_dim;

  KOKKOS_FUNCTION int own_stride() const { return head_dim + Tuning::pad; }
  KOKKOS_FUNCTION int transposed_stride() const { return tile.met + Tuning::pad; }
  KOKKOS_FUNCTION int plain_stride() const { return round_up(head_dim, Tuning::block_columns); }
  KOKKOS_FUNCTION int weight_stride() const { return tile.met + Tuning::pad; }

  KOKKOS_FUNCTION int own_size() const { return tile.owned * own_stride(); }
  KOKKOS_FUNCTION int met_size() const {
    const int transposed = head_dim * transposed_stride();
    const int plain = tile.met * plain_stride();
    return transposed > plain ? transposed : plain;
  }
  KOKKOS_FUNCTION int weight_size() const { return tile.owned * weight_stride(); }
  KOKKOS_FUNCTION int queries() const { return owner == Owner::queries ? tile.owned : tile.met; }
  KOKKOS_FUNCTION int numbers() const {
    const int weights = owner == Owner::queries || !makes_gradients<Makes> ? 1 : 2;
    const int owned = makes_gradients<Makes> ? 2 : 1;
    return owned * own_size() + met_size() + weights * weight_size() + 3 * queries();
  }
  KOKKOS_FUNCTION int indices() const { return 3 * (tile.owned + tile.met); }
};

template <class ExecSpace, class Tuning, class Storage, class T, Owner kOwner, class Makes = Gradients>
class BackwardTeam {
 public:
  using Policy = Kokkos::TeamPolicy<ExecSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr Owner owner = kOwner;
  static constexpr auto& tiles = Tuning::backward_tiles;
  using Layout = BackwardLayout<Tuning, owner, Makes>;
  template <class Element>
  using Scratch = Kokkos::View<Element*, typename ExecSpace::scratch_memory_space, Kokkos::MemoryUnmanaged>;

  DeviceWorkView work;
  Index first_team;  ///< of this launch
  Makes makes;
  T score_factor;  ///< scale * log2(e)
  Layout layout;

  static std::size_t scratch_bytes(const Layout& layout) {
    return Scratch<T>::shmem_size(std::size_t(layout.numbers())) +
           Scratch<Index>::shmem_size(std::size_t(layout.indices()));
  }

  /// One team's work, its scratch memory in this level: known to the compiler, because each access to memory that may
  /// be of either kind costs a GPU several instructions.
  template <int level>
  KOKKOS_FUNCTION void run(const Member& team) const {
    const Context c(*this, team.team_scratch(level), team,
                    work.template tile_of<owner>(first_team + team.league_rank()));
    load_owned(c);
    const core::WorkItem& item = c.tile.item;
    const Index all = owns_queries ? item.key.count : owned_rows(item, Owner::queries);
    for (Index first = 0; first < all; first += layout.tile.met) {
      const Index left = all - first;
      const int count = left < layout.tile.met ? int(left) : layout.tile.met;
      if (!sees_any(c, met_row(item, first).t, met_row(item, first + count - 1).t)) continue;
      look_up(c, c.met_rows, count, round_up(count, Tuning::block_columns), !owns_queries,
              [&](int j) { return met_row(item, first + j); });
      load_transposed(c, owns_queries ? makes.operands.k : makes.operands.q, owns_queries ? T(1) : score_factor, count);
      multiply_scores(c, count);
      if constexpr (makes_gradients<Makes>) {
        add_gradients(c, count);
      } else {
        add_statistics(c, count);
      }
    }
  }

 private:
  static constexpr bool owns_queries = owner == Owner::queries;

  /// Looked-up rows of one side.
  struct Rows {
    Index* t;
    Index* row;
    Index* head;
  };

  /// Where this team finds its things.
  struct Context {
    const Member& team;
    TeamTile tile;
    CombRange owned_t;
    T* own;
    T* own_too;
    T* met;
    T* p;
    T* ds;
    T* shift;  // +inf where a row saw no key
    T* factor;
    T* delta;
    Rows own_rows;
    Rows met_rows;

    template <class Memory>
    KOKKOS_FUNCTION Context(const BackwardTeam& kernel, const Memory& memory, const Member& member,
                            const TeamTile& owned)
        : team(member), tile(owned) {
      const Layout& layout = kernel.layout;
      const Scratch<T> numbers(memory, std::size_t(layout.numbers()));
      const Scratch<Index> indices(memory, std::size_t(layout.indices()));
      own = numbers.data();
      own_too = makes_gradients<Makes> ? own + layout.own_size() : own;
      met = own_too + layout.own_size();
      p = met + layout.met_size();
      ds = owns_queries || !makes_gradients<Makes> ? p : p + layout.weight_size();
      shift = ds + layout.weight_size();
      factor = shift + layout.queries();
      delta = factor + layout.queries();
      own_rows = {indices.data(), indices.data() + layout.tile.owned, indices.data() + 2 * layout.tile.owned};
      Index* rest = indices.data() + 3 * layout.tile.owned;
      met_rows = {rest, rest + layout.tile.met, rest + 2 * layout.tile.met};
      owned_t = {kernel.owned_row(tile.item, tile.begin).t, kernel.owned_row(tile.item, tile.begin + tile.count - 1).t};
    }
  };

  KOKKOS_FUNCTION ItemRow owned_row(const core::WorkItem& item, Index number) const {
    return owns_queries ? work.query_of(item, number) : work.key_of(item, number);
  }
  /// Number 0, 1, ... in the order of meeting: keys descending, queries ascending.
  KOKKOS_FUNCTION ItemRow met_row(const core::WorkItem& item, Index number) const {
    return owns_queries ? work.key_of(item, item.key.count - 1 - number) : work.query_of(item, number);
  }

  /// Whether any owned row and any row between comb indices `first` and `last` (in the order of meeting) see each
  /// other.
  KOKKOS_FUNCTION bool sees_any(const Context& c, Index first, Index last) const {
    return owns_queries ? any_visible(c.tile.item.mask, c.owned_t, {last, first})
                        : any_visible(c.tile.item.mask, {first, last}, c.owned_t);
  }

  KOKKOS_FUNCTION bool hidden(const Context& c, int i, int j) const {
    return owns_queries ? is_hidden(c.tile.item.mask, c.own_rows.t[i], c.met_rows.t[j])
                        : is_hidden(c.tile.item.mask, c.met_rows.t[j], c.own_rows.t[i]);
  }

  /// Fills `rows` (and shift, factor and delta if they are queries) with rows 0, 1, ... of a tile. Blocks reach up to
  /// `padded` rows: the last row stands in for those beyond the tile, whose results are not read.
  template <class RowAt>
  KOKKOS_FUNCTION void look_up(const Context& c, const Rows& rows, int count, int padded, bool queries,
                               const RowAt& row_at) const {
    for (int i = c.team.team_rank(); i < padded; i += c.team.team_size()) {
      const ItemRow found = row_at(i < count ? i : count - 1);
      rows.t[i] = found.t;
      rows.row[i] = found.row;
      rows.head[i] = found.head;
      if (!queries) continue;
      const core::TensorView& normalizers = makes.operands.normalizers;
      const Index at = number_of(normalizers, c.tile.batch, found.row, found.head);
      c.shift[i] = load_number<T>(normalizers, at);
      c.factor[i] = load_number<T>(normalizers, at + 1);
      if constexpr (makes_gradients<Makes>) {
        const core::TensorView& delta = makes.operands.delta;
        const bool empty = c.factor[i] == T(0);
        c.delta[i] = empty ? T(0) : load_number<T>(delta, number_of(delta, c.tile.batch, found.row, found.head));
      }
    }
  }

  KOKKOS_FUNCTION T number_at(const Context& c, const core::TensorView& tensor, const Rows& rows, int i, int d) const {
    const Index at = number_of(tensor, c.tile.batch, rows.row[i], rows.head[i]);
    return core::load_as<T>(static_cast<const Storage*>(tensor.data)[at + d]);
  }

  KOKKOS_FUNCTION void load_owned(const Context& c) const {
    const int padded = round_up(c.tile.count, Tuning::block_rows);
    look_up(c, c.own_rows, c.tile.count, padded, owns_queries,
            [&](int i) { return owned_row(c.tile.item, c.tile.begin + i); });
    c.team.team_barrier();
    const auto& operands = makes.operands;
    for_each_element(c.team, padded, layout.head_dim, [&](int i, int d) {
      const int at = i * layout.own_stride() + d;
      c.own[at] =
          (owns_queries ? score_factor : T(1)) * number_at(c, owns_queries ? operands.q : operands.k, c.own_rows, i, d);
      if constexpr (makes_gradients<Makes>)
        c.own_too[at] = number_at(c, owns_queries ? operands.dout : operands.v, c.own_rows, i, d);
    });
  }

  /// dq, or dk and dv, take in the rows met.
  KOKKOS_FUNCTION void add_gradients(const Context& c, int count) const {
    const auto& operands = makes.operands;
    load_transposed(c, owns_queries ? operands.v : operands.dout, T(1), count);
    weigh(c, count);
    load_plain(c, owns_queries ? operands.k : operands.q, count);
    add_products(c, c.ds, owns_queries ? makes.sums.dq : makes.sums.dk, count);
    if constexpr (!owns_queries) {
      load_plain(c, operands.dout, count);
      add_products(c, c.p, makes.sums.dv, count);
    }
  }

  /// Lists, or what keys receive, take in the rows met: every owned row is one thread's. Barriers: all weights are
  /// there; the rows met are no longer asked for.
  KOKKOS_FUNCTION void add_statistics(const Context& c, int count) const {
    c.team.team_barrier();
    for_each_element(c.team, c.tile.count, count, [&](int i, int j) {
      const int query = owns_queries ? i : j, at = i * layout.weight_stride() + j;
      c.p[at] = hidden(c, i, j) ? T(0) : core::exp2(c.p[at] - c.shift[query]);
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
    const core::TensorView& received = makes.sums.received;
    double* const sums =
        static_cast<double*>(received.data) + number_of(received, c.tile.batch, c.own_rows.row[i], c.own_rows.head[i]);
    for (int j = 0; j < count; ++j) {
      const Index slot = (makes.operands.first_head + c.met_rows.head[j]) % makes.operands.slots;
      sums[slot] += double(c.factor[j]) * double(c.p[i * layout.weight_stride() + j]);
    }
  }

  KOKKOS_FUNCTION void list_keys(const Context& c, int count, int i) const {
    const core::WorkItem& item = c.tile.item;
    const Index head = c.own_rows.head[i], size = makes.sums.top_keys, pairs = makes.operands.pairs;
    const Index at = ((c.tile.batch * makes.rows + c.own_rows.row[i]) * makes.shape.heads + head) * size;
    const TopList<T> list{static_cast<T*>(makes.sums.top_weights) + at, makes.sums.top_rows + at, size};
    const auto row_of = [&](Index t) { return item.first_row + t * item.row_step; };
    const core::HeadPair* const of_head = makes.operands.head_pairs + head * pairs;
    const Index x = row_of(c.own_rows.t[i]);
    const int most = pairs == 1 ? 1 : multiplicity(of_head, pairs, x, x);
    const T caution = TopList<T>::caution(most);
    for (int j = 0; j < count; ++j) {
      const T weight = c.p[i * layout.weight_stride() + j];
      if (!(weight > list.last() * caution)) continue;
      const Index y = row_of(c.met_rows.t[j]);
      const int times = most == 1 ? 1 : multiplicity(of_head, pairs, x, y);
      list.admit(T(times) * weight, item.document + y);
    }
  }

  /// Rows met, transposed and times `factor`: met[d][j]. The barriers: rows are looked up and the old tile is no longer
  /// read; all of the new one is there.
  KOKKOS_FUNCTION void load_transposed(const Context& c, const core::TensorView& tensor, T factor, int count) const {
    c.team.team_barrier();
    for_each_element(c.team, round_up(count, Tuning::block_columns), layout.head_dim, [&](int j, int d) {
      c.met[d * layout.transposed_stride() + j] = factor * number_at(c, tensor, c.met_rows, j, d);
    });
    c.team.team_barrier();
  }

  /// Rows met as they are: met[j][d], columns up to a whole block filled with zeros.
  KOKKOS_FUNCTION void load_plain(const Context& c, const core::TensorView& tensor, int count) const {
    c.team.team_barrier();
    for_each_element(c.team, count, layout.plain_stride(), [&](int j, int d) {
      c.met[j * layout.plain_stride() + d] = d < layout.head_dim ? number_at(c, tensor, c.met_rows, j, d) : T(0);
    });
    c.team.team_barrier();
  }

  /// p = own met, scores in base 2.
  KOKKOS_FUNCTION void multiply_scores(const Context& c, int count) const {
    for_each_product(c, c.own, count, [&](int i, int j, T product) { c.p[i * layout.weight_stride() + j] = product; });
  }

  /// Scores to weights, and dS. Every thread turns the scores that it has computed itself.
  KOKKOS_FUNCTION void weigh(const Context& c, int count) const {
    const T output_scale = T(makes.operands.output_scale);
    for_each_product(c, c.own_too, count, [&](int i, int j, T product) {
      const int at = i * layout.weight_stride() + j;
      const int query = owns_queries ? i : j;
      const T weight = hidden(c, i, j) ? T(0) : c.factor[query] * core::exp2(c.p[at] - c.shift[query]);
      if constexpr (!owns_queries) c.p[at] = weight;
      c.ds[at] = weight * (output_scale * product - c.delta[query]);
    });
  }

  /// Calls visit(i, j, own_i . met_j) for whole blocks of the tile.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_product(const Context& c, const T* own, int count, const Visit& visit) const {
    for_each_block<Tuning>(c.team, c.tile.count, count, [&](int row, int column, int step) {
      T sum[Tuning::block_rows][Tuning::block_columns] = {};
      multiply_block<Tuning::columns_side_by_side>(sum, own + row * layout.own_stride(), layout.own_stride(),
                                                   c.met + column, layout.transposed_stride(), step, layout.head_dim);
      for (int r = 0; r < Tuning::block_rows; ++r) {
        for (int b = 0; b < Tuning::block_columns; ++b) visit(row + r, column + b * step, sum[r][b]);
      }
    });
  }

  /// gradient_i += sum_j weights_ij met_j, one j after another.
  KOKKOS_FUNCTION void add_products(const Context& c, const T* weights, const core::TensorView& gradient,
                                    int count) const {
    T* const numbers = static_cast<T*>(gradient.data);
    for_each_block<Tuning>(c.team, c.tile.count, layout.head_dim, [&](int row, int column, int step) {
      T sum[Tuning::block_rows][Tuning::block_columns] = {};
      const auto for_each_number = [&](const auto& visit) {
        for (int r = 0; r < Tuning::block_rows; ++r) {
          const int i = row + r;
          if (i >= c.tile.count) break;
          T* const to = numbers + number_of(gradient, c.tile.batch, c.own_rows.row[i], c.own_rows.head[i]);
          for (int b = 0; b < Tuning::block_columns; ++b) {
            const int d = column + b * step;
            if (d < layout.head_dim) visit(to[d], sum[r][b]);
          }
        }
      };
      for_each_number([](const T& number, T& here) { here = number; });
      multiply_block<Tuning::columns_side_by_side>(sum, weights + row * layout.weight_stride(), layout.weight_stride(),
                                                   c.met + column, layout.plain_stride(), step, count);
      for_each_number([](T& number, const T& here) { number = here; });
    });
  }
};

}  // namespace annulus::kernels::device
