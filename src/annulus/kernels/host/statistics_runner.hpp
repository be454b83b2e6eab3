// Adds to the statistics of one task's keys and of the query rows that see these keys. KeyTasks uses this for
// attend_statistics().
#pragma once

#include <algorithm>
#include <numbers>

#include "annulus/kernels/host/key_tasks.hpp"
#include "annulus/kernels/host/ruled_rows.hpp"
#include "annulus/kernels/multiplicity.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/statistics.hpp"
#include "annulus/kernels/top_list.hpp"

namespace annulus::kernels::host {

/// A query row of a chunk, with its list of largest weights.
template <class T>
struct ListedRow {
  TopList<T> list;
  PickedRows* picked;  // one for each pair of the pattern that picks the row
  int pairs;           // the number of these pairs; a key counts at most this many times
  T skip_factor;       // see TopList::skip_factor()
};

/// A thread's memory for one task of `count` keys. A row is a (query row, head) pair; rows are ordered by query row,
/// then by head.
template <class T>
struct StatisticsMemory {
  StatisticsMemory(Scratch& scratch, const TileFunctions<T>& tiles, const BackwardLayout<T>& layout, Index slots,
                   Index pairs, Index count, bool ruled) {
    const Index all = core::ceil_div(count, Index(tiles.backward_key_step)) * tiles.backward_key_step;
    const Index rows = layout.chunk_rows;
    operands = scratch.take<const void*>(std::max(all, rows));
    received_rows = scratch.take<double*>(all);
    key_rows = scratch.take<Index>(all);
    received = scratch.take<double>(slots * all);
    queries = score_rows<T>(scratch, layout);
    keys = {scratch.take<T>(all * layout.keys.depth), int(count), int(all)};
    this->slots = scratch.take<int>(rows);
    factors = scratch.take<double>(rows);
    thresholds = scratch.take<Number<T>>(rows);
    listed = scratch.take<ListedRow<Number<T>>>(rows);
    picked = scratch.take<PickedRows>(rows * pairs);
    if (ruled) rule = ruled_pairs<Number<T>>(scratch, rows, all);
  }

  const void** operands;   // [max(keys, rows)] addresses of rows of k, later of q
  double** received_rows;  // [keys] where a key's sums begin in StatisticViews::received, slot after slot
  Index* key_rows;         // [keys] row numbers, from the start of the document
  double* received;        // [slots][keys]
  ScoreRows<T> queries;
  ScoreKeys<T> keys;
  int* slots;                    // [rows of a chunk]
  double* factors;               // [rows]
  Number<T>* thresholds;         // [rows]
  ListedRow<Number<T>>* listed;  // [rows]
  PickedRows* picked;            // [rows][pairs]
  Index document = 0;            // global number of the document's first row
  RuledPairs<Number<T>> rule = {};
};

/// The `Sums` of KeyTasks for statistics: adds to the sums and lists of StatisticViews. One object serves all threads.
template <class T>
class ProbabilitySums {
 public:
  using Memory = StatisticsMemory<T>;
  using N = Number<T>;

  ProbabilitySums(const TileFunctions<T>& tiles, const BackwardLayout<T>& layout, const WorkList& work,
                  const core::Shape& shape, Index rows, const StatisticOperands& operands,
                  const StatisticViews& statistics)
      : tiles_(tiles),
        layout_(layout),
        work_(work),
        shape_(shape),
        rows_(rows),
        operands_(operands),
        statistics_(statistics),
        rule_(operands.rule) {}

  static Index block() { return 0; }

  Memory start(const BackwardTask& task) const {
    const WorkItem& item = work_.items[task.item];
    Memory w = Scratch::of_this_thread().fill([&](Scratch& s) {
      return Memory(s, tiles_, layout_, operands_.slots, operands_.pairs, task.count, is_ruled());
    });
    if (is_ruled()) rule_.begin(w.rule);
    w.document = item.document;
    RowWalk walk(work_, item.key);
    walk.skip(task.first);
    for (Index j = 0; j < task.count; ++j) {
      const auto [t, row] = walk.next();
      w.operands[j] = address(operands_.k, task.batch, row, item.kv_head);
      w.received_rows[j] = static_cast<double*>(address(statistics_.received, task.batch, row, item.kv_head));
      w.key_rows[j] = item.first_row + t * item.row_step;
      if (is_ruled()) rule_.set_key(w.rule, j, item, t);
      for (Index slot = 0; slot < operands_.slots; ++slot)
        w.received[slot * w.keys.capacity + j] = w.received_rows[j][slot];
    }
    if (is_ruled()) rule_.clear_keys(w.rule, task.count, w.keys.capacity);
    std::fill(w.operands + task.count, w.operands + w.keys.capacity, zero_row);
    for (Index slot = 0; slot < operands_.slots; ++slot)
      std::fill(w.received + slot * w.keys.capacity + task.count, w.received + (slot + 1) * w.keys.capacity, 0.0);
    tiles_.pack_transposed[storage_index(operands_.k.type)](w.operands, w.keys.capacity, w.queries.head_dim, N(1),
                                                            w.keys.keys);
    return w;
  }

  void load_queries(const BackwardTask& task, const ChunkRows& rows, Memory& w) const {
    ScoreRows<T>& q = w.queries;
    const bool lists = statistics_.top_keys > 0;
    rows.for_each([&](Index i, Index t, Index row, Index head) {
      if (is_ruled()) rule_.set_row(w.rule, i, rows.item, t, head);
      w.operands[i] = address(operands_.q, task.batch, row, head);
      const N* const numbers = static_cast<const N*>(address(operands_.normalizers, task.batch, row, head));
      const Normalizer<N> normalizer = with_finite_factor<N>({numbers[0], numbers[1]});
      q.shift[i] = normalizer.shift;
      w.factors[i] = double(normalizer.factor);
      w.slots[i] = int((operands_.first_head + head) % operands_.slots);
      if (lists) {
        const Index at = (task.batch * rows_ + row) * shape_.heads + head;
        w.listed[i] =
            listed_row(at, head, rows.item.first_row + t * rows.item.row_step, w.picked + i * operands_.pairs);
      }
    });
    if (is_ruled()) rule_.clear_rows(w.rule, rows.count, q.rows);
    std::fill(w.operands + rows.count, w.operands + q.rows, zero_row);
    std::fill(q.shift + rows.count, q.shift + q.rows, no_normalizer<N>().shift);
    std::fill(w.factors + rows.count, w.factors + q.rows, 0.0);
    std::fill(w.slots + rows.count, w.slots + q.rows, w.slots[rows.count - 1]);
    std::fill(w.thresholds + rows.count, w.thresholds + q.rows, N(1));
    q.score_factor = N(operands_.scale * std::numbers::log2e);  // as in the forward pass, so scores have the same bits
    tiles_.pack_row_slabs[storage_index(operands_.q.type)](w.operands, q.rows, q.head_dim, q.capacity,
                                                           {&q.score_factor, 0}, q.queries);
  }

  /// Adds the terms of the chunk's (row, key) pairs. Tasks of higher keys have already finished with these rows' lists.
  void add(Index count, Memory& w) const {
    const bool lists = statistics_.top_keys > 0;
    for (Index i = 0; lists && i < count; ++i) w.thresholds[i] = w.listed[i].list.last() * w.listed[i].skip_factor;
    (is_ruled() ? tiles_.add_ruled_statistics : tiles_.add_statistics)(
        w.queries, w.keys, {w.received, w.slots, w.factors, lists ? w.thresholds : nullptr, admit, &w, &w.rule});
  }

  void finish(const Memory& w) const {
    for (Index j = 0; j < w.keys.count; ++j) {
      for (Index slot = 0; slot < operands_.slots; ++slot)
        w.received_rows[j][slot] = w.received[slot * w.keys.capacity + j];
    }
  }

 private:
  bool is_ruled() const { return rule_.is_there(); }

  /// Returns list number `at`, which belongs to row x of the document and to query head `head`. If the pattern has
  /// several pairs, writes to `picked`, for each pair that picks x, the rows that this pair picks around x.
  ListedRow<N> listed_row(Index at, Index head, Index x, PickedRows* picked) const {
    const Index size = statistics_.top_keys;
    int pairs = operands_.pairs == 1 ? 1 : 0;
    for (Index i = 0; operands_.pairs > 1 && i < operands_.pairs; ++i) {
      picked[pairs] = picked_around(operands_.head_pairs[head * operands_.pairs + i], x);
      if (picked[pairs].contain(x)) ++pairs;
    }
    return {{static_cast<N*>(statistics_.top_weights) + at * size, statistics_.top_rows + at * size, size},
            picked,
            pairs,
            TopList<N>::skip_factor(pairs)};
  }

  static void admit(void* memory, int row, int key, N weight) {
    const Memory& w = *static_cast<const Memory*>(memory);
    const ListedRow<N>& listed = w.listed[row];
    const Index y = w.key_rows[key];
    int times = 1;
    if (listed.pairs > 1) {
      times = 0;
      for (int i = 0; i < listed.pairs; ++i) times += listed.picked[i].contain(y);
    }
    listed.list.admit(N(times) * weight, w.document + y);
    w.thresholds[row] = listed.list.last() * listed.skip_factor;
  }

  const TileFunctions<T>& tiles_;
  const BackwardLayout<T>& layout_;
  const WorkList& work_;
  const core::Shape& shape_;
  const Index rows_;
  const StatisticOperands& operands_;
  const StatisticViews& statistics_;
  const RuleOf<N> rule_;
};

}  // namespace annulus::kernels::host
