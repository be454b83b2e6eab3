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
  Layout(const TileFunctions<T>& tiles, Index head_dim)
      : depth(core::ceil_div(head_dim, tiles.depth_step) * tiles.depth_step),
        slabs(core::ceil_div(head_dim, tiles.key_block)),
        columns(slabs * tiles.key_block) {
    const Index fitting = tuning::host_tile_bytes / ((depth + columns) * Index(sizeof(T)));
    tile_keys = std::clamp<Index>(fitting / tiles.key_block, 1, tiles.max_keys / tiles.key_block) * tiles.key_block;
    max_rows = std::max<Index>(1, tuning::host_panel_bytes / ((depth + columns) * Index(sizeof(T))));
  }
  Index depth, slabs, columns;
  Index tile_keys;  // keys of a tile
  Index max_rows;   // query rows times heads of a task
};

/// How many numbers of each kind a task of `rows` (query row, head) pairs needs; see TaskRunner::Work.
template <class T>
struct Sizes {
  Sizes(const TileFunctions<T>& tiles, const Layout<T>& layout, Index rows)
      : padded_rows(core::ceil_div(rows, Index(tiles.row_block)) * tiles.row_block),
        addresses(std::max(padded_rows, 2 * layout.tile_keys)),
        queries(padded_rows * layout.depth + tiles.row_block + tiles.lanes),  // room for a whole vector
        acc(padded_rows * layout.columns),
        sums(padded_rows * tiles.lanes),
        keys(layout.tile_keys * layout.depth),
        values(layout.tile_keys * layout.columns),
        strip(Index(tiles.row_block) * tiles.max_keys) {}

  Index bytes() const {
    Index all = 2 * Scratch::bytes_for<Index>(padded_rows) + Scratch::bytes_for<const void*>(addresses);
    for (const Index count : {queries, acc, padded_rows, sums, keys, values, strip})
      all += Scratch::bytes_for<T>(count);
    return all;
  }

  Index padded_rows, addresses, queries, acc, sums, keys, values, strip;
};

/// Runs tasks of one work list; one object serves all threads.
template <class T>
class TaskRunner {
 public:
  TaskRunner(const TileFunctions<T>& tiles, const WorkList& work, const Operands& operands, State& state)
      : tiles_(tiles), work_(work), operands_(operands), state_(state), layout_(tiles, state.shape.head_dim) {}

  const Layout<T>& layout() const { return layout_; }

  template <class Poll>
  void run(const Task& task, const Poll& poll) {
    Work w = start(task);
    load_rows(task, w);
    for (Index first = 0; first < task.most_keys; first += layout_.tile_keys) {
      load_keys(task, first, w);
      tiles_.add_tile(w.panels, w.tile, w.strip);
      poll();
    }
    store_rows(w);
  }

 private:
  // A thread's memory for one task. Rows are (query row, head) with the head running fastest, so that `visible`
  // ascends; the last group is filled up with copies of the last row.
  struct Work {
    Index rows;              // real ones
    Index padded_rows;       // a multiple of MR
    Index* state_row;        // [rows] (batch, row, head) as an index into m and l
    Index* visible;          // [padded_rows]
    const void** addresses;  // [max(padded_rows, 2 tile_keys)] of query rows, later of keys and values
    QueryPanels<T> panels;
    KeyTile<T> tile;
    T* strip;
  };

  Work start(const Task& task) const {
    const Index d = state_.shape.head_dim, mr = tiles_.row_block;
    Work w;
    w.rows = task.count * work_.items[task.item].head_count;
    const Sizes<T> sizes(tiles_, layout_, w.rows);
    w.padded_rows = sizes.padded_rows;
    Scratch& scratch = Scratch::of_this_thread();
    scratch.start(sizes.bytes());
    w.state_row = scratch.take<Index>(w.padded_rows);
    w.visible = scratch.take<Index>(w.padded_rows);
    w.addresses = scratch.take<const void*>(sizes.addresses);
    w.strip = scratch.take<T>(sizes.strip);
    T* const key_panels = scratch.take<T>(sizes.keys);
    w.tile = {key_panels, scratch.take<T>(sizes.values), 0, 0, int(layout_.tile_keys)};
    T* const query_panels = scratch.take<T>(sizes.queries);
    T* const accumulators = scratch.take<T>(sizes.acc);
    T* const maxima = scratch.take<T>(w.padded_rows);
    w.panels = {query_panels, accumulators, maxima, scratch.take<T>(sizes.sums), w.visible, w.padded_rows / mr, int(d)};
    return w;
  }

  void load_rows(const Task& task, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    RowWalk walk(work_, item.query);
    walk.skip(task.first);
    VisibleKeys visible(work_, item.key, item.mask);
    Index i = 0;
    for (Index n = 0; n < task.count; ++n) {
      const auto [t, row] = walk.next();
      const Index keys = visible.at(t);
      for (Index h = 0; h < item.head_count; ++h, ++i) {
        const Index head = item.head_first + h * item.head_stride;
        w.state_row[i] = (task.batch * state_.rows + row) * state_.shape.heads + head;
        w.visible[i] = keys;
        w.addresses[i] = address(operands_.q, task.batch, row, head);
      }
    }
    for (; i < w.padded_rows; ++i) {
      w.visible[i] = w.visible[w.rows - 1];
      w.addresses[i] = w.addresses[w.rows - 1];
    }
    const T factor = T(operands_.scale * std::numbers::log2e);
    tiles_.pack_queries[storage_index(operands_.q.type)](w.addresses, w.padded_rows, w.panels.head_dim, factor,
                                                         w.panels.queries);
    load_state(w);
  }

  /// Panels' part of row i, slab s.
  T* acc_of(const Work& w, Index i, Index s) const {
    const Index mr = tiles_.row_block, nr = tiles_.key_block;
    return w.panels.acc + ((i / mr * layout_.slabs + s) * mr + i % mr) * nr;
  }

  void load_state(Work& w) const {
    const Index d = state_.shape.head_dim, nr = tiles_.key_block, lanes = tiles_.lanes;
    const T* m = static_cast<const T*>(state_.m.data());
    const T* l = static_cast<const T*>(state_.l.data());
    const T* acc = static_cast<const T*>(state_.acc.data());
    std::memset(w.panels.acc, 0, w.padded_rows * layout_.columns * sizeof(T));
    std::memset(w.panels.sum, 0, w.padded_rows * lanes * sizeof(T));
    std::fill_n(w.panels.max, w.padded_rows, -std::numeric_limits<T>::infinity());
    for (Index i = 0; i < w.rows; ++i) {
      const Index row = w.state_row[i];
      if (l[row] == 0) continue;  // empty
      w.panels.max[i] = m[row];
      w.panels.sum[i * lanes] = l[row];
      for (Index s = 0; s < layout_.slabs; ++s)
        std::memcpy(acc_of(w, i, s), acc + row * d + s * nr, std::min(nr, d - s * nr) * sizeof(T));
    }
  }

  void store_rows(const Work& w) {
    const Index d = state_.shape.head_dim, nr = tiles_.key_block, lanes = tiles_.lanes;
    T* m = static_cast<T*>(state_.m.data());
    T* l = static_cast<T*>(state_.l.data());
    T* acc = static_cast<T*>(state_.acc.data());
    for (Index i = 0; i < w.rows; ++i) {
      const Index row = w.state_row[i];
      T sum = 0;
      for (Index j = 0; j < lanes; ++j) sum += w.panels.sum[i * lanes + j];
      m[row] = w.panels.max[i];
      l[row] = sum;
      for (Index s = 0; s < layout_.slabs; ++s)
        std::memcpy(acc + row * d + s * nr, acc_of(w, i, s), std::min(nr, d - s * nr) * sizeof(T));
    }
  }

  /// Packs keys [first, first + tile_keys) of the piece, or as many as the task's rows see.
  void load_keys(const Task& task, Index first, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    const Index count = std::min(layout_.tile_keys, task.most_keys - first);
    const Index padded = core::ceil_div(count, tiles_.key_block) * tiles_.key_block;
    const void** const keys = w.addresses;
    const void** const values = keys + padded;
    RowWalk walk(work_, item.key);
    walk.skip(first);
    for (Index j = 0; j < count; ++j) {
      const Index row = walk.next().row;
      keys[j] = address(operands_.k, task.batch, row, item.kv_head);
      values[j] = address(operands_.v, task.batch, row, item.kv_head);
    }
    std::fill(keys + count, keys + padded, zero_row);
    std::fill(values + count, values + padded, zero_row);
    w.tile.first = first;
    w.tile.count = int(count);
    const int d = w.panels.head_dim, storage = storage_index(operands_.k.type);
    tiles_.pack_keys[storage](keys, int(padded), d, w.tile.keys);
    tiles_.pack_values[storage](values, int(padded), d, w.tile.capacity, w.tile.values);
  }

  const TileFunctions<T>& tiles_;
  const WorkList& work_;
  const Operands& operands_;
  State& state_;
  Layout<T> layout_;
};

}  // namespace annulus::kernels::host
