// Runs forward tasks. A task packs its queries, then packs keys tile by tile and adds each tile to the running softmax.
#pragma once

#include <algorithm>
#include <limits>
#include <numbers>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/ruled_rows.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/host/tasks.hpp"
#include "annulus/kernels/numbers.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::TensorView;
using core::WorkItem;
using core::WorkList;

/// A row of zeros, packed instead of rows that do not exist. Zero bytes are the number 0 in every storage type.
alignas(64) inline constexpr std::byte zero_row[kMaxHeadDim * sizeof(double)] = {};

/// Sizes of panels and tiles for head sizes D and Dv; see QueryPanels and KeyTile.
template <class T>
struct ForwardLayout {
  ForwardLayout(const TileFunctions<T>& tiles, const core::Shape& shape, const TileSizes& sizes)
      : depth(tiles.parts * whole_steps(core::ceil_div(shape.head_dim, kPerWord<T>), tiles.forward_depth_step)),
        columns(whole_steps(shape.dim_of_values(), tiles.column_step)),
        tile_keys(sizes.keys),
        max_rows(sizes.rows) {
    const bool has_granules = tiles.key_granule > 1;
    const Index most_bytes = has_granules ? tuning::matrix_tile_bytes : tuning::host_tile_bytes,
                most_keys = has_granules ? tuning::matrix_tile_keys : tuning::host_tile_keys,
                panel_bytes = has_granules ? tuning::matrix_panel_bytes : tuning::host_panel_bytes;
    const Index strip = tiles.strip_keys, row_bytes = (depth + columns) * Index(sizeof(Number<T>)),
                key_bytes = (depth + tiles.parts * columns / kPerWord<T>)*Index(sizeof(T));
    const Index fitting = std::min(most_bytes / key_bytes, most_keys);
    if (tile_keys == 0) tile_keys = std::max<Index>(1, fitting / strip) * strip;
    if (has_granules) tile_keys = whole_steps(tile_keys, strip);
    if (max_rows == 0) max_rows = std::max<Index>(1, panel_bytes / row_bytes);
  }
  static Index whole_steps(Index count, Index step) { return core::ceil_div(count, step) * step; }

  Index depth;      // words of a row of q or k
  Index columns;    // columns of values and accumulators, padded
  Index tile_keys;  // keys of a tile
  Index max_rows;   // (query row, head) pairs of a task
};

/// A thread's memory for one task of `rows` rows. A row is a (query row, head) pair. Rows are ordered by query row,
/// then by head, so comb indices t ascend.
template <class T>
struct ForwardMemory {
  ForwardMemory(Scratch& scratch, const TileFunctions<T>& tiles, const ForwardLayout<T>& layout, Index rows,
                bool entropy, bool ruled)
      : rows(rows),
        padded_rows(core::ceil_div(rows, Index(tiles.group_rows)) * tiles.group_rows),
        state_row(scratch.take<Index>(padded_rows)),
        begin(scratch.take<Index>(padded_rows)),
        end(scratch.take<Index>(padded_rows)),
        addresses(scratch.take<const void*>(std::max(padded_rows, 2 * layout.tile_keys))),
        scores(scratch.take<Number<T>>(Index(tiles.group_rows) * tiles.strip_keys)) {
    tile.keys =
        scratch.take<T>(core::ceil_div(layout.tile_keys, Index(tiles.key_step)) * tiles.key_step * layout.depth);
    tile.capacity = int(scratch.whole_lines<T>(core::ceil_div(layout.tile_keys, kPerWord<T>)));
    tile.values = scratch.take<T>(tile.capacity * layout.columns * tiles.parts);
    panels.queries = scratch.take<T>(padded_rows * layout.depth);
    panels.acc = scratch.take<Number<T>>(padded_rows * layout.columns);
    panels.max = scratch.take<Number<T>>(padded_rows);
    panels.sum = scratch.take<Number<T>>(padded_rows);
    panels.score_sum = entropy ? scratch.take<Number<T>>(padded_rows) : nullptr;
    panels.begin = begin;
    panels.end = end;
    panels.rows = rows;
    const Index keys = core::ceil_div(layout.tile_keys, Index(tiles.key_step)) * tiles.key_step;
    if (ruled) rule = ruled_pairs<Number<T>>(scratch, padded_rows, keys);
  }

  Index rows;              // rows that exist
  Index padded_rows;       // rounded up to whole groups
  Index* state_row;        // [rows] (batch, row, head) as an index into m and l
  Index* begin;            // [rows] positions of the keys that a row sees
  Index* end;              // [rows]
  const void** addresses;  // [max(padded_rows, 2 tile_keys)] of query rows, later accumulators, later keys and values
  Number<T>* scores;
  KeyTile<T> tile = {};
  QueryPanels<T> panels = {};
  RuledPairs<Number<T>> rule = {};
};

/// Runs tasks of one work list; one object serves all threads.
template <class T>
class ForwardRunner {
 public:
  ForwardRunner(const TileFunctions<T>& tiles, const WorkList& work, const Operands& operands, State& state,
                const TileSizes& sizes)
      : tiles_(tiles),
        work_(work),
        operands_(operands),
        state_(state),
        layout_(tiles, state.shape, sizes),
        rule_(operands.rule) {}

  const ForwardLayout<T>& layout() const { return layout_; }

  template <class Poll>
  void run(const Task& task, const Poll& poll) {
    Work w = start(task);
    const WorkItem& item = work_.items[task.item];
    RowWalk keys(work_, item.key);  // prefetch the last keys that the task sees, because tiles take them first
    keys.skip(std::max<Index>(0, item.key.count - task.key_begin - tuning::host_rows_ahead));
    const Index key_rows = item.key.count - task.key_begin;
    ask_for_rows(operands_.k, task.batch, item.kv_head, w.panels.head_dim, keys, key_rows);
    ask_for_rows(operands_.v, task.batch, item.kv_head, w.panels.value_dim, keys, key_rows);
    load_rows(task, w);
    w.panels.rule = &w.rule;
    const auto add_tile = (rule_.is_there() ? tiles_.add_ruled_tile : tiles_.add_tile)[has_entropy()];
    for (Index first = first_tile(task); first < task.key_end; first += layout_.tile_keys) {
      load_keys(task, first, w);
      add_tile(w.panels, w.tile, w.scores);
      poll();
    }
    store_rows(w);
  }

 private:
  using Work = ForwardMemory<T>;
  using N = Number<T>;

  /// Returns the position at which the first tile of keys begins. A granule begins at this position, also if some keys
  /// of the granule do not exist or are not seen. Granules are counted from the first row of the piece, which has the
  /// last position, because t descends from position to position. Worked example: if 70 keys are cut into granules of
  /// 32, granules begin at positions -26, 6 and 38.
  Index first_tile(const Task& task) const {
    const Index step = tiles_.key_granule, keys = work_.items[task.item].key.count;
    const Index missing = core::ceil_div(keys, step) * step - keys;
    return (task.key_begin + missing) / step * step - missing;
  }

  N score_factor() const { return N(operands_.scale * std::numbers::log2e); }

  Work start(const Task& task) const {
    const Index rows = task.count * work_.items[task.item].head_count;
    Work w = Scratch::of_this_thread().fill(
        [&](Scratch& s) { return Work(s, tiles_, layout_, rows, has_entropy(), rule_.is_there()); });
    if (rule_.is_there()) rule_.begin(w.rule);
    w.panels.head_dim = int(state_.shape.head_dim);
    w.panels.value_dim = int(state_.shape.dim_of_values());
    w.panels.exponent_bias = N(state_.exponent_bias);
    w.panels.score_factor = score_factor();
    return w;
  }

  bool has_entropy() const { return state_.score_sum.bytes() > 0; }

  void load_rows(const Task& task, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    RowWalk walk(work_, item.query);
    walk.skip(task.first);
    SeenKeys seen(work_, item);
    const EntryRows q(operands_.q, task.batch, 0);
    const Index head_bytes = operands_.q.head_stride * Index(core::bytes_of(operands_.q.type));
    Index i = 0;
    for (Index n = 0; n < task.count; ++n) {
      const auto [t, row] = walk.next();
      const KeyNumbers keys = seen.at(t);
      for (Index h = 0; h < item.head_count; ++h, ++i) {
        const Index head = item.head_first + h * item.head_stride;
        w.state_row[i] = (task.batch * state_.rows + row) * state_.shape.heads + head;
        w.begin[i] = keys.begin;
        w.end[i] = keys.end;
        w.addresses[i] = q.first + row * q.row_bytes + head * head_bytes;
        if (rule_.is_there()) rule_.set_row(w.rule, i, item, t, head);
      }
    }
    const Index packed = ForwardLayout<T>::whole_steps(w.rows, tiles_.query_step);
    if (rule_.is_there()) rule_.clear_rows(w.rule, i, w.padded_rows);
    std::fill(w.addresses + i, w.addresses + packed, zero_row);
    tiles_.pack_queries[storage_index(operands_.q.type)](w.addresses, packed, w.panels.head_dim, score_factor(),
                                                         w.panels.queries);
    load_state(w, packed);
  }

  /// Sets the states of the `packed` rows that tiles read. Rows from w.rows on do not exist: their states are empty.
  void load_state(Work& w, Index packed) const {
    const N* m = static_cast<const N*>(state_.m.data());
    const N* l = static_cast<const N*>(state_.l.data());
    const N* score_sum = static_cast<const N*>(state_.score_sum.data());
    const N* acc = static_cast<const N*>(state_.acc.data());
    std::fill_n(w.panels.sum, packed, N(0));
    if (has_entropy()) std::fill_n(w.panels.score_sum, packed, N(0));
    std::fill_n(w.panels.max, packed, -std::numeric_limits<N>::infinity());
    const auto rows = reinterpret_cast<const N**>(w.addresses);
    for (Index i = 0; i < w.rows; ++i) {
      const Index row = w.state_row[i];
      const bool empty = l[row] == 0;  // acc may hold anything then
      rows[i] = empty ? nullptr : acc + row * w.panels.value_dim;
      if (empty) continue;
      w.panels.max[i] = m[row];
      w.panels.sum[i] = l[row];
      if (has_entropy()) w.panels.score_sum[i] = score_sum[row];
    }
    tiles_.load_columns(rows, w.rows, packed, w.panels.value_dim, w.panels.acc);
  }

  void store_rows(const Work& w) {
    N* m = static_cast<N*>(state_.m.data());
    N* l = static_cast<N*>(state_.l.data());
    N* score_sum = static_cast<N*>(state_.score_sum.data());
    N* acc = static_cast<N*>(state_.acc.data());
    const auto rows = reinterpret_cast<N**>(const_cast<void**>(w.addresses));
    for (Index i = 0; i < w.rows; ++i) {
      const Index row = w.state_row[i];
      m[row] = w.panels.max[i];
      l[row] = w.panels.sum[i];
      if (has_entropy()) score_sum[row] = w.panels.score_sum[i];
      rows[i] = acc + row * w.panels.value_dim;
    }
    tiles_.store_columns(w.panels.acc, w.rows, w.panels.value_dim, rows);
  }

  /// Packs the keys at positions [first, first + tile_keys) of the piece, up to the task's last key. Positions below 0
  /// get zeros. The walk goes to higher t, but a higher position has a lower t. So the last address is set first.
  void load_keys(const Task& task, Index first, Work& w) const {
    const WorkItem& item = work_.items[task.item];
    const Index count = std::min(layout_.tile_keys, task.key_end - first);
    const void** const keys = w.addresses;
    const void** const values = keys + count;
    RowWalk walk(work_, item.key);
    walk.skip(item.key.count - first - count);
    const Index before = std::clamp<Index>(-first, 0, count);
    std::fill_n(keys, before, zero_row);
    std::fill_n(values, before, zero_row);
    const EntryRows k(operands_.k, task.batch, item.kv_head), v(operands_.v, task.batch, item.kv_head);
    const bool ruled = rule_.is_there();
    for (Index j = count; j-- > before;) {
      const auto [t, row] = walk.next();
      keys[j] = k.at(row);
      values[j] = v.at(row);
      if (ruled) rule_.set_key(w.rule, j, item, t);
    }
    if (ruled) rule_.clear_keys(w.rule, count, core::ceil_div(count, tiles_.key_step) * tiles_.key_step);
    w.tile.first = first;
    w.tile.count = int(count);
    const int storage = storage_index(operands_.k.type);
    tiles_.pack_rows[storage](keys, int(count), w.panels.head_dim, w.tile.keys);
    w.tile.finite = tiles_.pack_values[storage](values, int(count), w.panels.value_dim, w.tile.capacity, w.tile.values);
  }

  const TileFunctions<T>& tiles_;
  const WorkList& work_;
  const Operands& operands_;
  State& state_;
  ForwardLayout<T> layout_;
  const RuleOf<N> rule_;
};

}  // namespace annulus::kernels::host
