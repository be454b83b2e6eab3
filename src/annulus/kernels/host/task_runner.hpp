// What one task does: packs its queries, walks over its keys tile by tile, keeps the running softmax in between.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <numbers>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/host/instruction_set.hpp"
#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/host/tasks.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::TensorView;
using core::WorkItem;
using core::WorkList;

/// Address of element (b, row, head, 0).
inline const void* address(const TensorView& view, Index b, Index row, Index head) {
  const Index element = b * view.batch_stride + row * view.row_stride + head * view.head_stride;
  return static_cast<const std::byte*>(view.data) + element * Index(core::bytes_of(view.type));
}

/// What stands in for rows that do not exist: zero in every storage type.
alignas(64) inline constexpr std::byte zero_row[kMaxHeadDim * sizeof(double)] = {};

/// Sizes of panels and tiles for one head size; see QueryPanels and KeyTile.
template <class T>
struct Layout {
  Layout(const TileFunctions<T>& tiles, Index head_dim, const TileSizes& sizes)
      : depth(core::ceil_div(head_dim, tiles.depth_step) * tiles.depth_step),
        slabs(core::ceil_div(head_dim, tiles.value_block)),
        columns(slabs * tiles.value_block),
        tile_keys(sizes.keys),
        max_rows(sizes.rows) {
    const Index strip = tiles.strip_keys, bytes = (depth + columns) * Index(sizeof(T));
    const Index fitting = std::min(tuning::host_tile_bytes / bytes, tuning::host_tile_keys);
    if (tile_keys == 0) tile_keys = std::max<Index>(1, fitting / strip) * strip;
    if (max_rows == 0) max_rows = std::max<Index>(1, tuning::host_panel_bytes / bytes);
  }
  Index depth, slabs, columns;
  Index tile_keys;  // keys of a tile
  Index max_rows;   // query rows times heads of a task
};

/// How many numbers of each kind a task of `rows` (query row, head) pairs needs; see TaskRunner::Work.
template <class T>
struct Sizes {
  Sizes(const TileFunctions<T>& tiles, const Layout<T>& layout, Index rows)
      : padded_rows(core::ceil_div(rows, Index(tiles.group_rows)) * tiles.group_rows),
        addresses(std::max(padded_rows, 2 * layout.tile_keys)),
        queries(padded_rows * layout.depth),
        acc(padded_rows * layout.columns),
        keys(core::ceil_div(layout.tile_keys, Index(tiles.key_step)) * tiles.key_step * layout.depth),
        values(layout.tile_keys * layout.columns),
        scores(Index(tiles.group_rows) * tiles.strip_keys) {}

  Index bytes() const {
    Index all = 3 * Scratch::bytes_for<Index>(padded_rows) + Scratch::bytes_for<const void*>(addresses);
    for (const Index count : {queries, acc, padded_rows, padded_rows, keys, values, scores})
      all += Scratch::bytes_for<T>(count);
    return all;
  }

  Index padded_rows, addresses, queries, acc, keys, values, scores;
};

/// Runs tasks of one work list; one object serves all threads.
template <class T>
class TaskRunner {
 public:
  TaskRunner(const TileFunctions<T>& tiles, const WorkList& work, const Operands& operands, State& state,
             const TileSizes& sizes)
      : tiles_(tiles), work_(work), operands_(operands), state_(state), layout_(tiles, state.shape.head_dim, sizes) {}

  const Layout<T>& layout() const { return layout_; }

  template <class Poll>
  void run(const Task& task, const Poll& poll) {
    Work w = start(task);
    load_rows(task, w);
    for (Index first = task.key_begin; first < task.key_end; first += layout_.tile_keys) {
      load_keys(task, first, w);
      tiles_.add_tile(w.panels, w.tile, w.scores);
      poll();
    }
    store_rows(w);
  }

 private:
  // A thread's memory for one task. Rows are (query row, head) with the head running fastest, so that they ascend in t.
  struct Work {
    Index rows;              // real ones
    Index padded_rows;       // whole groups
    Index* state_row;        // [rows] (batch, row, head) as an index into m and l
    Index* begin;            // [rows] positions of the keys that a row sees
    Index* end;              // [rows]
    const void** addresses;  // [max(padded_rows, 2 tile_keys)] of query rows, later of keys and values
    QueryPanels<T> panels;
    KeyTile<T> tile;
    T* scores;
  };

  Work start(const Task& task) const {
    Work w;
    w.rows = task.count * work_.items[task.item].head_count;
    const Sizes<T> sizes(tiles_, layout_, w.rows);
    w.padded_rows = sizes.padded_rows;
    Scratch& scratch = Scratch::of_this_thread();
    scratch.start(sizes.bytes());
    w.state_row = scratch.take<Index>(w.padded_rows);
    w.begin = scratch.take<Index>(w.padded_rows);
    w.end = scratch.take<Index>(w.padded_rows);
    w.addresses = scratch.take<const void*>(sizes.addresses);
    w.scores = scratch.take<T>(sizes.scores);
    T* const keys = scratch.take<T>(sizes.keys);
    w.tile = {keys, scratch.take<T>(sizes.values), 0, 0, int(layout_.tile_keys)};
    T* const queries = scratch.take<T>(sizes.queries);
    T* const accumulators = scratch.take<T>(sizes.acc);
    T* const maxima = scratch.take<T>(w.padded_rows);
    T* const sums = scratch.take<T>(w.padded_rows);
    w.panels = {queries,       accumulators, maxima, sums, w.begin, w.end, w.rows, int(state_.shape.head_dim),
                T(state_.lift)};
    return w;
  }

  void load_rows(const Task& task, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    RowWalk walk(work_, item.query);
    walk.skip(task.first);
    SeenKeys seen(work_, item);
    Index i = 0;
    for (Index n = 0; n < task.count; ++n) {
      const auto [t, row] = walk.next();
      const SeenKeys::Range keys = seen.at(t);
      for (Index h = 0; h < item.head_count; ++h, ++i) {
        const Index head = item.head_first + h * item.head_stride;
        w.state_row[i] = (task.batch * state_.rows + row) * state_.shape.heads + head;
        w.begin[i] = keys.begin;
        w.end[i] = keys.end;
        w.addresses[i] = address(operands_.q, task.batch, row, head);
      }
    }
    std::fill(w.addresses + i, w.addresses + w.padded_rows, zero_row);
    const Index packed = core::ceil_div(w.rows, Index(tiles_.query_block)) * tiles_.query_block;
    const T factor = T(operands_.scale * std::numbers::log2e);
    tiles_.pack_queries[storage_index(operands_.q.type)](w.addresses, packed, w.panels.head_dim, factor,
                                                         w.panels.queries);
    load_state(w);
  }

  /// Panels' part of row i, slab s.
  T* acc_of(const Work& w, Index i, Index s) const {
    const Index mr = tiles_.row_block, nr = tiles_.value_block;
    return w.panels.acc + ((i / mr * layout_.slabs + s) * mr + i % mr) * nr;
  }

  void load_state(Work& w) const {
    const Index d = state_.shape.head_dim, nr = tiles_.value_block;
    const T* m = static_cast<const T*>(state_.m.data());
    const T* l = static_cast<const T*>(state_.l.data());
    const T* acc = static_cast<const T*>(state_.acc.data());
    std::memset(w.panels.acc, 0, w.padded_rows * layout_.columns * sizeof(T));
    std::fill_n(w.panels.sum, w.padded_rows, T(0));
    std::fill_n(w.panels.max, w.padded_rows, -std::numeric_limits<T>::infinity());
    for (Index i = 0; i < w.rows; ++i) {
      const Index row = w.state_row[i];
      if (l[row] == 0) continue;  // empty
      w.panels.max[i] = m[row];
      w.panels.sum[i] = l[row];
      for (Index s = 0; s < layout_.slabs; ++s)
        std::memcpy(acc_of(w, i, s), acc + row * d + s * nr, std::min(nr, d - s * nr) * sizeof(T));
    }
  }

  void store_rows(const Work& w) {
    const Index d = state_.shape.head_dim, nr = tiles_.value_block;
    T* m = static_cast<T*>(state_.m.data());
    T* l = static_cast<T*>(state_.l.data());
    T* acc = static_cast<T*>(state_.acc.data());
    for (Index i = 0; i < w.rows; ++i) {
      const Index row = w.state_row[i];
      m[row] = w.panels.max[i];
      l[row] = w.panels.sum[i];
      for (Index s = 0; s < layout_.slabs; ++s)
        std::memcpy(acc + row * d + s * nr, acc_of(w, i, s), std::min(nr, d - s * nr) * sizeof(T));
    }
  }

  /// Packs the keys at positions [first, first + tile_keys) of the piece, or as many as the task's rows see. A piece is
  /// walked upwards in t, so the addresses are filled in from the last one.
  void load_keys(const Task& task, Index first, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    const Index count = std::min(layout_.tile_keys, task.key_end - first);
    const void** const keys = w.addresses;
    const void** const values = keys + count;
    RowWalk walk(work_, item.key);
    walk.skip(item.key.count - first - count);
    for (Index j = count; j-- > 0;) {
      const Index row = walk.next().row;
      keys[j] = address(operands_.k, task.batch, row, item.kv_head);
      values[j] = address(operands_.v, task.batch, row, item.kv_head);
    }
    w.tile.first = first;
    w.tile.count = int(count);
    const int d = w.panels.head_dim, storage = storage_index(operands_.k.type);
    tiles_.pack_keys[storage](keys, int(count), d, w.tile.keys);
    tiles_.pack_values[storage](values, int(count), d, w.tile.capacity, w.tile.values);
  }

  const TileFunctions<T>& tiles_;
  const WorkList& work_;
  const Operands& operands_;
  State& state_;
  Layout<T> layout_;
};

}  // namespace annulus::kernels::host
