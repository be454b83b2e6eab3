// Adds to the gradients of one task's keys and of the query rows that see these keys. KeyTasks uses this for
// attend_backward().
#pragma once

#include <algorithm>
#include <numbers>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/host/key_tasks.hpp"
#include "annulus/kernels/host/ruled_rows.hpp"
#include "annulus/kernels/normalizer.hpp"

namespace annulus::kernels::host {

/// A thread's memory for one task of `count` keys. A row is a (query row, head) pair; rows are ordered by query row,
/// then by head. `in_blocks`: the rows of a block may be in several lists (GradientViews). `ruled`: scores have a cap
/// or a bias.
template <class T>
struct BackwardMemory {
  BackwardMemory(Scratch& scratch, const TileFunctions<T>& tiles, const BackwardLayout<T>& layout, Index count,
                 bool in_blocks, bool ruled) {
    const Index all = core::ceil_div(count, Index(tiles.key_panel)) * tiles.key_panel;
    sum_rows = core::ceil_div(all, Index(tiles.row_block)) * tiles.row_block;
    const Index rows = layout.chunk_rows;
    constexpr bool is_pair = kPerWord < T >> 1;
    const auto numbers = [&](Index many) { return scratch.take<N>(many); };
    const auto words = [&](Index many) { return scratch.take<T>(many); };
    dk_rows = scratch.take<N*>(all);
    dv_rows = scratch.take<N*>(all);
    begun_dk_rows = in_blocks ? scratch.take<N*>(all) : nullptr;
    begun_dv_rows = in_blocks ? scratch.take<N*>(all) : nullptr;
    dq_rows = scratch.take<N*>(rows);
    operands = scratch.take<const void*>(std::max(all, rows));
    others = scratch.take<const void*>(std::max(all, rows));
    const Index strip = tiles.parts * rows / kPerWord<T> * tiles.strip_stride;
    const bool keeps_strips = tiles.key_granule == 1;  // matrix units keep only dS, for dQ
    strips = {keeps_strips ? words(strip) : nullptr, keeps_strips ? words(strip) : nullptr, nullptr, nullptr};
    strips.ds_rows = is_pair ? words(strip) : strips.ds;
    if (is_pair && keeps_strips) strips.weights = numbers(tiles.row_block * tiles.strip_stride);
    const Index columns = layout.keys.columns, value_columns = layout.values.columns;
    keys = {{words(all * layout.keys.depth), int(count), int(all)},
            words(tiles.parts * all / kPerWord<T> * columns),
            words(all * layout.values.depth),
            numbers(sum_rows * columns),
            numbers(sum_rows * value_columns),
            in_blocks ? numbers(sum_rows * columns) : nullptr,
            in_blocks ? numbers(sum_rows * value_columns) : nullptr,
            scratch.take<bool>(sum_rows / tiles.row_block),
            true};
    queries.ScoreRows<T>::operator=(score_rows<T>(scratch, layout));
    queries.value_dim = int(layout.values.numbers);
    queries.dout = words(rows * layout.values.row_words);
    queries.added_queries = is_pair ? words(tiles.parts * rows / kPerWord<T> * columns) : queries.queries;
    queries.added_dout = is_pair ? words(tiles.parts * rows / kPerWord<T> * value_columns) : queries.dout;
    queries.dq = numbers(rows * columns);
    queries.delta = numbers(rows);
    queries.factors = numbers(rows);
    queries.finite = queries.ends = true;
    if (ruled) rule = ruled_pairs<N>(scratch, rows, all);
  }

  using N = Number<T>;

  Index sum_rows;     // keys in dk and dv, padded to a multiple of MR
  N** dk_rows;        // [keys of the chunk] addresses of accumulators
  N** dv_rows;        // [keys]
  N** begun_dk_rows;  // [keys]; null if not in_blocks
  N** begun_dv_rows;
  N** dq_rows;            // [rows of a chunk]
  const void** operands;  // [max(keys, rows)] addresses of rows of k, later of q
  const void** others;    // [max(keys, rows)] addresses of rows of v, later of dout
  KeyChunk<T> keys;
  QueryChunk<T> queries;
  Strips<T> strips;
  RuledPairs<N> rule = {};
};

/// The `Sums` of KeyTasks for gradients: adds to the accumulators of GradientViews. One object serves all threads.
template <class T>
class GradientSums {
 public:
  using Memory = BackwardMemory<T>;
  using N = Number<T>;

  GradientSums(const TileFunctions<T>& tiles, const BackwardLayout<T>& layout, const WorkList& work,
               const BackwardOperands& operands, const GradientViews& gradients)
      : tiles_(tiles), layout_(layout), work_(work), operands_(operands), gradients_(gradients), rule_(operands.rule) {}

  /// Returns how many comb indices a block of rows has (0: no blocks). If lists are cut only between granules (32
  /// rows), vector code takes each half of a granule as a block, so that no block goes on in the next list.
  Index block() const {
    if (is_in_blocks()) return tuning::host_sum_rows;
    return operands_.by_granules && tiles_.key_granule == 1 ? granule : 0;
  }

  Memory start(const BackwardTask& task) const {
    Memory w = Scratch::of_this_thread().fill(
        [&](Scratch& s) { return Memory(s, tiles_, layout_, task.count, is_in_blocks(), rule_.is_there()); });
    if (rule_.is_there()) rule_.begin(w.rule);
    if (gradients_.dq.data == nullptr) w.queries.dq = nullptr;
    if (gradients_.dk.data == nullptr) w.keys.dk = w.keys.dv = nullptr;
    const WorkItem& item = work_.items[task.item];
    for (const TensorView* tensor : {&operands_.q, &operands_.dout, &gradients_.dq}) {
      const Index numbers = (tensor == &operands_.dout ? layout_.values : layout_.keys).numbers;
      if (tensor->data != nullptr)
        ask_for_rows(*tensor, task.batch, item.head_first, numbers, RowWalk(work_, item.query), item.query.count);
    }
    load_keys(task, w);
    return w;
  }

  void load_queries(const BackwardTask& task, const ChunkRows& rows, Memory& w) const {
    QueryChunk<T>& q = w.queries;
    const Index count = rows.count;
    q.ends = rows.ends || !is_in_blocks();
    q.by_granules = operands_.by_granules;
    rows.for_each([&](Index i, Index t, Index row, Index head) {
      if (rule_.is_there()) rule_.set_row(w.rule, i, rows.item, t, head);
      w.operands[i] = address(operands_.q, task.batch, row, head);
      w.others[i] = address(operands_.dout, task.batch, row, head);
      w.dq_rows[i] = accumulator(gradients_.dq, task.batch, row, head);
      const N* const numbers = accumulator(operands_.normalizers, task.batch, row, head);
      const Normalizer<N> normalizer = with_finite_factor<N>({numbers[0], numbers[1]});
      const N delta = *accumulator(operands_.delta, task.batch, row, head);
      q.shift[i] = normalizer.shift;
      q.delta[i] = kPerWord<T> > 1 ? delta / N(operands_.output_scale) : normalizer.factor * delta;
      q.factors[i] = normalizer.factor * N(operands_.output_scale);
    });
    if (rule_.is_there()) rule_.clear_rows(w.rule, count, q.rows);
    std::fill(w.operands + count, w.operands + q.rows, zero_row);
    std::fill(w.others + count, w.others + q.rows, zero_row);
    const Normalizer<N> none = no_normalizer<N>();
    std::fill(q.shift + count, q.shift + q.rows, none.shift);
    std::fill(q.delta + count, q.delta + q.rows, N(0));
    std::fill(q.factors + count, q.factors + q.rows, none.factor);
    q.score_factor = N(operands_.scale * std::numbers::log2e);  // as in the forward pass, so scores have the same bits
    const int storage = storage_index(operands_.q.type);
    const auto pack = tiles_.pack_row_slabs[storage], pack_added = tiles_.pack_slabs[storage];
    const bool finite_queries = pack(w.operands, q.rows, q.head_dim, q.capacity, {&q.score_factor, 0}, q.queries);
    const bool finite_dout = pack(w.others, q.rows, q.value_dim, q.capacity, {q.factors, 1}, q.dout);
    q.finite = finite_queries && finite_dout;
    if (kPerWord<T> == 1) return;
    pack_added(w.operands, q.rows, q.head_dim, q.capacity / kPerWord<T>, {&q.score_factor, 0}, q.added_queries);
    pack_added(w.others, q.rows, q.value_dim, q.capacity / kPerWord<T>, {q.factors, 1}, q.added_dout);
  }

  /// Adds the terms of the chunk's (row, key) pairs. Tasks of higher keys have already finished with these rows.
  void add(Index count, Memory& w) const {
    const bool wanted = w.queries.dq != nullptr;
    if (wanted) tiles_.load_query_sums(w.dq_rows, int(count), w.queries.rows, w.queries.head_dim, w.queries.dq);
    w.strips.rule = &w.rule;
    (rule_.is_there() ? tiles_.add_ruled_chunks : tiles_.add_chunks)(w.queries, w.keys, w.strips);
    if (wanted) tiles_.store_query_sums(w.queries.dq, int(count), w.queries.head_dim, w.dq_rows);
  }

  void finish(const Memory& w) const {
    if (w.keys.dk == nullptr) return;
    tiles_.store_rows(w.keys.dk, w.keys.count, w.queries.head_dim, w.dk_rows);
    tiles_.store_rows(w.keys.dv, w.keys.count, w.queries.value_dim, w.dv_rows);
    if (!is_in_blocks()) return;
    tiles_.store_rows(w.keys.begun_dk, w.keys.count, w.queries.head_dim, w.begun_dk_rows);
    tiles_.store_rows(w.keys.begun_dv, w.keys.count, w.queries.value_dim, w.begun_dv_rows);
  }

 private:
  bool is_in_blocks() const { return gradients_.begun_dk.data != nullptr; }

  void load_keys(const BackwardTask& task, Memory& w) const {
    const WorkItem& item = work_.items[task.item];
    RowWalk walk(work_, item.key);
    walk.skip(task.first);
    for (Index j = 0; j < task.count; ++j) {
      const auto [t, row] = walk.next();
      if (rule_.is_there()) rule_.set_key(w.rule, j, item, t);
      w.operands[j] = address(operands_.k, task.batch, row, item.kv_head);
      w.others[j] = address(operands_.v, task.batch, row, item.kv_head);
      w.dk_rows[j] = accumulator(gradients_.dk, task.batch, row, item.kv_head);
      w.dv_rows[j] = accumulator(gradients_.dv, task.batch, row, item.kv_head);
      if (!is_in_blocks()) continue;
      w.begun_dk_rows[j] = accumulator(gradients_.begun_dk, task.batch, row, item.kv_head);
      w.begun_dv_rows[j] = accumulator(gradients_.begun_dv, task.batch, row, item.kv_head);
    }
    if (rule_.is_there()) rule_.clear_keys(w.rule, task.count, w.keys.capacity);
    const int d = w.queries.head_dim, value_dim = w.queries.value_dim, capacity = w.keys.capacity,
              storage = storage_index(operands_.k.type);
    std::fill(w.operands + task.count, w.operands + capacity, zero_row);
    std::fill(w.others + task.count, w.others + capacity, zero_row);
    const N one = 1;
    tiles_.pack_transposed[storage](w.operands, capacity, d, one, w.keys.keys);
    w.keys.finite = tiles_.pack_descending_slabs[storage](w.operands, capacity, d, capacity / kPerWord<T>, {&one, 0},
                                                          w.keys.key_rows);
    tiles_.pack_transposed[storage](w.others, capacity, value_dim, one, w.keys.values);
    if (w.keys.dk == nullptr) return;
    tiles_.load_rows(w.dk_rows, w.keys.count, w.sum_rows, d, w.keys.dk);
    tiles_.load_rows(w.dv_rows, w.keys.count, w.sum_rows, value_dim, w.keys.dv);
    std::fill_n(w.keys.open, w.sum_rows / tiles_.row_block, false);
    if (!is_in_blocks()) return;
    tiles_.load_rows(w.begun_dk_rows, w.keys.count, w.sum_rows, d, w.keys.begun_dk);
    tiles_.load_rows(w.begun_dv_rows, w.keys.count, w.sum_rows, value_dim, w.keys.begun_dv);
    const auto holds = [&](const N* begun, Index block, const RowLayout<T>& rows) {
      const Index numbers = rows.columns * tiles_.row_block;  // per block of keys
      return !std::all_of(begun + block * numbers, begun + (block + 1) * numbers, [](N x) { return x == 0; });
    };
    for (Index b = 0; b < w.sum_rows / tiles_.row_block; ++b)
      w.keys.open[b] = holds(w.keys.begun_dk, b, layout_.keys) || holds(w.keys.begun_dv, b, layout_.values);
  }

  static N* accumulator(const TensorView& view, Index b, Index row, Index head) {
    return view.data == nullptr ? nullptr : static_cast<N*>(address(view, b, row, head));
  }

  const TileFunctions<T>& tiles_;
  const BackwardLayout<T>& layout_;
  const WorkList& work_;
  const BackwardOperands& operands_;
  const GradientViews& gradients_;
  const RuleOf<N> rule_;
};

}  // namespace annulus::kernels::host
