// What one backward task does: packs its keys, walks over the query rows that see them, chunk by chunk.
#pragma once

#include <algorithm>
#include <atomic>
#include <numbers>
#include <vector>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/host/forward_runner.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

/// Sizes of panels and chunks for one head size; see QueryChunk and KeyChunk.
template <class T>
struct BackwardLayout {
  BackwardLayout(const TileFunctions<T>& tiles, const core::Shape& shape, Index rows)
      : head_dim(shape.head_dim),
        depth(core::ceil_div(head_dim, tiles.depth_step) * tiles.depth_step),
        columns(core::ceil_div(head_dim, tiles.column_block) * tiles.column_block) {
    const Index key_bytes = (2 * depth + 3 * columns) * Index(sizeof(T));
    const Index fitting = tuning::host_key_panel_bytes / key_bytes,
                wanted = std::min(tuning::host_panel_keys, tuning::host_long_key_panel_bytes / key_bytes);
    max_keys = std::max<Index>(1, std::max(fitting, wanted) / tiles.backward_key_step) * tiles.backward_key_step;
    const Index most = std::min(rows * shape.group(), tuning::host_query_chunk);
    chunk_rows = core::ceil_div(most, tiles.backward_row_step) * tiles.backward_row_step;
  }
  Index head_dim, depth, columns;
  Index max_keys;    // keys of a task
  Index chunk_rows;  // query rows, times heads, of a chunk
};

/// A thread's memory for one task of `count` keys. Query rows are (query row, head) pairs, the head running fastest.
template <class T>
struct BackwardMemory {
  BackwardMemory(Scratch& scratch, const TileFunctions<T>& tiles, const BackwardLayout<T>& layout, Index count) {
    const Index all = core::ceil_div(count, Index(tiles.backward_key_step)) * tiles.backward_key_step;
    const Index rows = layout.chunk_rows;
    const auto numbers = [&](Index many) { return scratch.take<T>(many); };
    dk_rows = scratch.take<T*>(all);
    dv_rows = scratch.take<T*>(all);
    dq_rows = scratch.take<T*>(rows);
    operands = scratch.take<const void*>(std::max(all, rows));
    others = scratch.take<const void*>(std::max(all, rows));
    strips = {numbers(rows * tiles.strip_stride), numbers(rows * tiles.strip_stride)};
    keys = {numbers(all * layout.depth),
            numbers(all * layout.columns),
            numbers(all * layout.depth),
            numbers(all * layout.columns),
            numbers(all * layout.columns),
            int(count),
            int(all)};
    queries = {numbers(rows * layout.columns),
               numbers(rows * layout.columns),
               numbers(rows * layout.columns),
               numbers(rows),
               numbers(rows),
               numbers(rows),
               scratch.take<int>(rows),
               scratch.take<int>(rows),
               0,
               int(rows),
               int(layout.head_dim)};
  }

  T** dk_rows;            // [keys of the chunk] accumulators in memory
  T** dv_rows;            // [keys]
  T** dq_rows;            // [rows of a chunk]
  const void** operands;  // [max(keys, rows)] of k, later of q
  const void** others;    // [max(keys, rows)] of v, later of dout
  KeyChunk<T> keys;
  QueryChunk<T> queries;
  Strips<T> strips;
};

/// Runs tasks of one work list; one object serves all threads.
template <class T>
class BackwardRunner {
 public:
  BackwardRunner(const TileFunctions<T>& tiles, const BackwardLayout<T>& layout, const WorkList& work,
                 const BackwardOperands& operands, const GradientViews& gradients, std::size_t tasks)
      : tiles_(tiles), layout_(layout), work_(work), operands_(operands), gradients_(gradients), done_(tasks) {}

  /// wait(ready) returns once ready() holds. poll() is called after every chunk of query rows.
  template <class Wait, class Poll>
  void run(const BackwardTask& task, const Wait& wait, const Poll& poll) {
    const WorkItem& item = work_.items[task.item];
    const Index heads = item.head_count, rows = item.query.count * heads;
    std::atomic<Index>& done = done_[task.number];
    const std::atomic<Index>* above = task.highest ? nullptr : &done_[task.number - 1];
    Work w = start(task);
    load_keys(task, w);
    for (Index first = 0; first < rows; first += layout_.chunk_rows) {
      const Index count = std::min(layout_.chunk_rows, rows - first);
      load_ranges(task, first, count, w);
      if (w.queries.begin[0] < w.queries.end[count - 1]) {
        load_queries(task, first, count, w);
        if (above) wait([&] { return above->load(std::memory_order_acquire) > first; });
        tiles_.load_rows(w.dq_rows, int(count), w.queries.rows, w.queries.head_dim, w.queries.dq);
        tiles_.add_chunks(w.queries, w.keys, w.strips);
        tiles_.store_rows(w.queries.dq, int(count), w.queries.head_dim, w.dq_rows);
        poll();
      }
      done.store(first + count, std::memory_order_release);
      if (first + count < rows) w.walk.skip((first + count) / heads - first / heads);
    }
    tiles_.store_rows(w.keys.dk, w.keys.count, w.queries.head_dim, w.dk_rows);
    tiles_.store_rows(w.keys.dv, w.keys.count, w.queries.head_dim, w.dv_rows);
  }

 private:
  struct Work : BackwardMemory<T> {
    RowWalk walk;         // stands at the first query row of the chunk
    VisibleKeys visible;  // the keys of the whole piece that row sees
  };

  Work start(const BackwardTask& task) const {
    const WorkItem& item = work_.items[task.item];
    const auto memory =
        Scratch::of_this_thread().fill([&](Scratch& s) { return BackwardMemory<T>(s, tiles_, layout_, task.count); });
    return {memory, RowWalk(work_, item.query), VisibleKeys(work_, item.key)};
  }

  void load_keys(const BackwardTask& task, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    RowWalk walk(work_, item.key);
    walk.skip(task.first);
    for (Index j = 0; j < task.count; ++j) {
      const Index row = walk.next().row;
      w.operands[j] = address(operands_.k, task.batch, row, item.kv_head);
      w.others[j] = address(operands_.v, task.batch, row, item.kv_head);
      w.dk_rows[j] = accumulator(gradients_.dk, task.batch, row, item.kv_head);
      w.dv_rows[j] = accumulator(gradients_.dv, task.batch, row, item.kv_head);
    }
    const int d = w.queries.head_dim, capacity = w.keys.capacity, storage = storage_index(operands_.k.type);
    std::fill(w.operands + task.count, w.operands + capacity, zero_row);
    std::fill(w.others + task.count, w.others + capacity, zero_row);
    const T one = 1;
    tiles_.pack_transposed[storage](w.operands, capacity, d, one, w.keys.keys);
    tiles_.pack_slabs[storage](w.operands, capacity, d, capacity, {&one, 0}, w.keys.key_rows);
    tiles_.pack_transposed[storage](w.others, capacity, d, one, w.keys.values);
    tiles_.load_rows(w.dk_rows, w.keys.count, capacity, d, w.keys.dk);
    tiles_.load_rows(w.dv_rows, w.keys.count, capacity, d, w.keys.dv);
  }

  /// The keys of the task that `count` query rows of the item see, from its row `first` on; w.walk then stands at the
  /// row after them.
  void load_ranges(const BackwardTask& task, Index first, Index count, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    QueryChunk<T>& q = w.queries;
    q.rows = int(core::ceil_div(count, Index(tiles_.backward_row_step)) * tiles_.backward_row_step);
    RowWalk walk = w.walk;
    Index i = 0;
    for (Index h = first % item.head_count; i < count; h = 0) {
      const Index upto = w.visible.at(walk.next().t) - task.first;
      const int split = int(std::clamp<Index>(upto, 0, task.count));  // of the task's keys, the first with t <= its own
      for (; h < item.head_count && i < count; ++h, ++i) {
        q.begin[i] = item.mask == core::Mask::after ? split : 0;
        q.end[i] = item.mask == core::Mask::upto ? split : int(task.count);
      }
    }
    std::fill(q.begin + count, q.begin + q.rows, q.begin[count - 1]);
    std::fill(q.end + count, q.end + q.rows, q.end[count - 1]);
  }

  /// Packs those rows.
  void load_queries(const BackwardTask& task, Index first, Index count, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    QueryChunk<T>& q = w.queries;
    RowWalk walk = w.walk;
    Index i = 0;
    for (Index h = first % item.head_count; i < count; h = 0) {
      const Index row = walk.next().row;
      for (; h < item.head_count && i < count; ++h, ++i) {
        const Index head = item.head_first + h * item.head_stride;
        w.operands[i] = address(operands_.q, task.batch, row, head);
        w.others[i] = address(operands_.dout, task.batch, row, head);
        w.dq_rows[i] = accumulator(gradients_.dq, task.batch, row, head);
        const T* const normalizer = accumulator(operands_.normalizers, task.batch, row, head);
        q.shift[i] = normalizer[0];
        q.delta[i] = normalizer[1] * *accumulator(operands_.delta, task.batch, row, head);
        q.factors[i] = normalizer[1] * T(operands_.output_scale);
      }
    }
    std::fill(w.operands + count, w.operands + q.rows, zero_row);
    std::fill(w.others + count, w.others + q.rows, zero_row);
    const Normalizer<T> none = no_normalizer<T>();
    std::fill(q.shift + count, q.shift + q.rows, none.shift);
    std::fill(q.delta + count, q.delta + q.rows, T(0));
    std::fill(q.factors + count, q.factors + q.rows, none.factor);
    const auto pack = tiles_.pack_slabs[storage_index(operands_.q.type)];
    const T score_factor = T(operands_.scale * std::numbers::log2e);  // as in the forward pass: scores have its bits
    pack(w.operands, q.rows, q.head_dim, q.capacity, {&score_factor, 0}, q.queries);
    pack(w.others, q.rows, q.head_dim, q.capacity, {q.factors, 1}, q.dout);
  }

  static T* accumulator(const TensorView& view, Index b, Index row, Index head) {
    return static_cast<T*>(address(view, b, row, head));
  }

  const TileFunctions<T>& tiles_;
  const BackwardLayout<T>& layout_;
  const WorkList& work_;
  const BackwardOperands& operands_;
  const GradientViews& gradients_;
  std::vector<std::atomic<Index>> done_;  // [number of the task] query rows of the item it needs no more
};

}  // namespace annulus::kernels::host
