// What one backward task does: packs its keys, walks over the query rows that see them, chunk by chunk.
#pragma once

#include <algorithm>
#include <atomic>
#include <numbers>
#include <vector>

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/host/backward_tasks.hpp"
#include "annulus/kernels/host/instruction_set.hpp"
#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/host/task_runner.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

/// Sizes of panels and chunks for one head size; see QueryChunk and KeyChunk.
template <class T>
struct BackwardLayout {
  BackwardLayout(const BackwardFunctions<T>& functions, const core::Shape& shape, Index rows)
      : head_dim(shape.head_dim),
        depth(core::ceil_div(head_dim, functions.depth_step) * functions.depth_step),
        slabs(core::ceil_div(head_dim, functions.key_block)),
        columns(slabs * functions.key_block) {
    const Index key_bytes = (2 * depth + 3 * columns) * Index(sizeof(T));
    const Index fitting = tuning::host_key_panel_bytes / key_bytes,
                wanted = std::min(tuning::host_panel_keys, tuning::host_long_key_panel_bytes / key_bytes);
    max_keys = std::max<Index>(1, std::max(fitting, wanted) / functions.key_step) * functions.key_step;
    const Index most = std::min(rows * shape.group(), tuning::host_query_chunk);
    chunk_rows = core::ceil_div(most, functions.row_step) * functions.row_step;
  }
  Index head_dim, depth, slabs, columns;
  Index max_keys;    // keys of a task
  Index chunk_rows;  // query rows, times heads, of a chunk
};

/// How many numbers of each kind a task of `count` keys needs.
template <class T>
struct BackwardSizes {
  BackwardSizes(const BackwardFunctions<T>& functions, const BackwardLayout<T>& layout, Index count)
      : keys(core::ceil_div(count, Index(functions.key_step)) * functions.key_step),
        rows(layout.chunk_rows),
        transposed(keys * layout.depth),
        key_slabs(keys * layout.columns),
        query_slabs(rows * layout.columns),
        strip(rows * functions.strip_stride) {}

  Index bytes() const {
    return 2 * Scratch::bytes_for<T*>(keys) + Scratch::bytes_for<T*>(rows) +
           2 * Scratch::bytes_for<void*>(std::max(keys, rows)) + 2 * Scratch::bytes_for<int>(rows) +
           2 * Scratch::bytes_for<T>(transposed) + 3 * Scratch::bytes_for<T>(key_slabs) +
           3 * Scratch::bytes_for<T>(query_slabs) + 3 * Scratch::bytes_for<T>(rows) + 2 * Scratch::bytes_for<T>(strip);
  }

  Index keys, rows, transposed, key_slabs, query_slabs, strip;
};

/// Runs tasks of one work list; one object serves all threads.
template <class T>
class BackwardRunner {
 public:
  BackwardRunner(const BackwardFunctions<T>& functions, const BackwardLayout<T>& layout, const WorkList& work,
                 const BackwardOperands& operands, const GradientViews& gradients, std::size_t tasks)
      : functions_(functions), layout_(layout), work_(work), operands_(operands), gradients_(gradients), done_(tasks) {}

  /// wait(ready) returns once ready() holds. poll() is called after every chunk of query rows.
  template <class Wait, class Poll>
  void run(const BackwardTask& task, const Wait& wait, const Poll& poll) {
    const WorkItem& item = work_.items[task.item];
    const Index heads = item.head_count, rows = item.query.count * heads;
    std::atomic<Index>& done = done_[task.place];
    const std::atomic<Index>* above = task.highest ? nullptr : &done_[task.place - 1];
    Work w = start(task);
    load_keys(task, w);
    for (Index first = 0; first < rows; first += layout_.chunk_rows) {
      const Index count = std::min(layout_.chunk_rows, rows - first);
      load_ranges(task, first, count, w);
      if (w.queries.begin[0] < w.queries.end[count - 1]) {
        load_queries(task, first, count, w);
        if (above) wait([&] { return above->load(std::memory_order_acquire) > first; });
        functions_.load_rows(w.dq_rows, int(count), w.queries.rows, w.queries.head_dim, w.queries.dq);
        functions_.add_chunks(w.queries, w.keys, w.strips);
        functions_.store_rows(w.queries.dq, int(count), w.queries.head_dim, w.dq_rows);
        poll();
      }
      done.store(first + count, std::memory_order_release);
      if (first + count < rows) w.walk.skip((first + count) / heads - first / heads);
    }
    functions_.store_rows(w.keys.dk, w.keys.count, w.queries.head_dim, w.dk_rows);
    functions_.store_rows(w.keys.dv, w.keys.count, w.queries.head_dim, w.dv_rows);
  }

 private:
  // A thread's memory for one task. Query rows are (query row, head) pairs, the head running fastest.
  struct Work {
    T** dk_rows;            // [keys of the chunk] accumulators in memory
    T** dv_rows;            // [keys]
    T** dq_rows;            // [rows of a chunk]
    const void** operands;  // [max(keys, rows)] of k, later of q
    const void** others;    // [max(keys, rows)] of v, later of dout
    RowWalk walk;           // stands at the first query row of the chunk
    VisibleKeys visible;    // the keys of the whole piece that row sees
    KeyChunk<T> keys;
    QueryChunk<T> queries;
    Strips<T> strips;
  };

  Work start(const BackwardTask& task) const {
    const WorkItem& item = work_.items[task.item];
    const BackwardSizes<T> sizes(functions_, layout_, task.count);
    Scratch& scratch = Scratch::of_this_thread();
    scratch.start(sizes.bytes());
    const auto key_slabs = [&] { return scratch.take<T>(sizes.key_slabs); };
    const auto query_slabs = [&] { return scratch.take<T>(sizes.query_slabs); };
    Work w{scratch.take<T*>(sizes.keys),
           scratch.take<T*>(sizes.keys),
           scratch.take<T*>(sizes.rows),
           scratch.take<const void*>(std::max(sizes.keys, sizes.rows)),
           scratch.take<const void*>(std::max(sizes.keys, sizes.rows)),
           RowWalk(work_, item.query),
           VisibleKeys(work_, item.key, core::Mask::upto),
           {},
           {},
           {scratch.take<T>(sizes.strip), scratch.take<T>(sizes.strip)}};
    w.keys = {scratch.take<T>(sizes.transposed),
              key_slabs(),
              scratch.take<T>(sizes.transposed),
              key_slabs(),
              key_slabs(),
              int(task.count),
              int(sizes.keys)};
    w.queries = {query_slabs(),
                 query_slabs(),
                 query_slabs(),
                 scratch.take<T>(sizes.rows),
                 scratch.take<T>(sizes.rows),
                 scratch.take<T>(sizes.rows),
                 scratch.take<int>(sizes.rows),
                 scratch.take<int>(sizes.rows),
                 0,
                 int(sizes.rows),
                 int(layout_.head_dim)};
    return w;
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
    functions_.pack_transposed[storage](w.operands, capacity, d, w.keys.keys);
    const T one = 1;
    functions_.pack_slabs[storage](w.operands, capacity, d, capacity, {&one, 0}, w.keys.key_rows);
    functions_.pack_transposed[storage](w.others, capacity, d, w.keys.values);
    functions_.load_rows(w.dk_rows, w.keys.count, capacity, d, w.keys.dk);
    functions_.load_rows(w.dv_rows, w.keys.count, capacity, d, w.keys.dv);
  }

  /// The keys of the task that `count` query rows of the item see, from its row `first` on; w.walk then stands at the
  /// row after them.
  void load_ranges(const BackwardTask& task, Index first, Index count, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    QueryChunk<T>& q = w.queries;
    q.rows = int(core::ceil_div(count, Index(functions_.row_step)) * functions_.row_step);
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
    const auto pack = functions_.pack_slabs[storage_index(operands_.q.type)];
    const T score_factor = T(operands_.scale * std::numbers::log2e);  // as in the forward pass: scores have its bits
    pack(w.operands, q.rows, q.head_dim, q.capacity, {&score_factor, 0}, q.queries);
    pack(w.others, q.rows, q.head_dim, q.capacity, {q.factors, 1}, q.dout);
  }

  static T* accumulator(const TensorView& view, Index b, Index row, Index head) {
    return static_cast<T*>(const_cast<void*>(address(view, b, row, head)));
  }

  const BackwardFunctions<T>& functions_;
  const BackwardLayout<T>& layout_;
  const WorkList& work_;
  const BackwardOperands& operands_;
  const GradientViews& gradients_;
  std::vector<std::atomic<Index>> done_;  // [place of the task] query rows of the item it needs no more
};

}  // namespace annulus::kernels::host
