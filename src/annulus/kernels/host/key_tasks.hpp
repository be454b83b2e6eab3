// Runs tasks of keys, for gradients or statistics. A task packs its keys and walks, chunk by chunk, over the query rows
// that see these keys. The tasks of an item add to a query row's results one after another, the task of the last keys
// first.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "annulus/kernels/host/forward_runner.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/row_walk.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/host/tasks.hpp"
#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {

/// Sizes of memory for rows of `numbers` numbers, which are rows of q and k, or of v and dout (ScoreRows, KeyChunk).
template <class T>
struct RowLayout {
  RowLayout(const TileFunctions<T>& tiles, Index numbers)
      : numbers(numbers),
        depth(tiles.parts * core::ceil_div(core::ceil_div(numbers, kPerWord<T>), tiles.depth_step) * tiles.depth_step),
        columns(core::ceil_div(numbers, tiles.column_block) * tiles.column_block),
        row_words(core::ceil_div(depth, tiles.column_block) * tiles.column_block) {}

  Index numbers;
  Index depth;      // words of a row in a panel
  Index columns;    // numbers of a row of sums, padded to whole slabs
  Index row_words;  // words of a row in slabs
};

/// Sizes of the panels of a task's keys and of the chunks of its query rows.
template <class T>
struct BackwardLayout {
  BackwardLayout(const TileFunctions<T>& tiles, const core::Shape& shape, Index rows)
      : keys(tiles, shape.head_dim), values(tiles, shape.dim_of_values()) {
    const Index depths = keys.depth + values.depth;
    const Index key_bytes = (depths + tiles.parts * keys.columns / kPerWord<T>)*Index(sizeof(T)) +
                            (keys.columns + values.columns) * Index(sizeof(Number<T>));
    const Index fitting = tuning::host_key_panel_bytes / key_bytes,
                wanted = std::min(tuning::host_panel_keys, tuning::host_long_key_panel_bytes / key_bytes);
    const Index most_keys = tiles.key_granule > 1 ? tuning::matrix_panel_keys : std::max(fitting, wanted);
    max_keys = std::max<Index>(1, most_keys / tiles.backward_key_step) * tiles.backward_key_step;
    const Index row_bytes = (2 * depths + tiles.parts * tiles.strip_stride / 2) * Index(sizeof(T)) +
                            keys.columns * Index(sizeof(Number<T>)),
                chunk = tiles.key_granule > 1 ? tuning::matrix_chunk_bytes / row_bytes : tuning::host_query_chunk;
    const Index most = std::min(rows * shape.group(), chunk);
    chunk_rows = core::ceil_div(most, tiles.backward_row_step) * tiles.backward_row_step;
  }
  RowLayout<T> keys, values;
  Index max_keys;    // keys of a task
  Index chunk_rows;  // (query row, head) pairs of a chunk
};

/// Takes the memory for a chunk's rows from `scratch`.
template <class T>
ScoreRows<T> score_rows(Scratch& scratch, const BackwardLayout<T>& layout) {
  const Index rows = layout.chunk_rows;
  return {scratch.take<T>(rows * layout.keys.row_words),
          scratch.take<Number<T>>(rows),
          scratch.take<int>(rows),
          scratch.take<int>(rows),
          0,
          int(rows),
          int(layout.keys.numbers),
          0};
}

/// A chunk: `count` (query row, head) pairs of an item, from pair number `first` on. Pairs are ordered by row, then by
/// head. A chunk has `most` pairs, or fewer if the item or a block of rows (GradientViews) ends earlier. `block`: how
/// many comb indices a block of rows has (0: no blocks).
struct ChunkRows {
  ChunkRows(const WorkItem& item, const RowWalk& walk, Index first, Index most, Index block)
      : item(item),
        walk(walk),
        first(first),
        count(std::min(most, item.query.count * item.head_count - first)),
        first_t(RowWalk(walk).next().t) {
    const Index heads = item.head_count, head = first % heads;
    if (block > 0) {
      const Index rows = walk.rows_below((first_t / block + 1) * block, item.query.count - first / heads);
      count = std::min(count, rows * heads - head);
    }
    RowWalk last = walk;
    last.skip((head + count - 1) / heads);
    last_t = last.next().t;
    if (block == 0) return;
    ends = (last_t + 1) % block == 0 && (head + count) % heads == 0;
  }

  const WorkItem& item;
  RowWalk walk;  // is at the row of the first pair
  Index first;
  Index count;
  Index first_t;  // comb index of the first row; last_t: of the last row
  Index last_t = 0;
  bool ends = true;  // whether a block of rows ends with the last row; true if there are no blocks

  /// Calls visit(i, t, stored row, head) for pair i = 0 ... count - 1 of the chunk.
  template <class Visit>
  void for_each(const Visit& visit) const {
    RowWalk at = walk;
    Index i = 0;
    for (Index h = first % item.head_count; i < count; h = 0) {
      const auto [t, row] = at.next();
      for (; h < item.head_count && i < count; ++h, ++i) visit(i, t, row, item.head_first + h * item.head_stride);
    }
  }
};

/// Runs tasks of one work list; one object serves all threads. `Sums` computes the results. It has a type Memory with a
/// member `queries` (a ScoreRows), and these functions:
///   block()                            comb indices of a block of rows (0: no blocks); a chunk stays inside a block
///   start(task)                        packs the keys and returns the Memory
///   load_queries(task, rows, memory)   packs a chunk of rows; called only if some of these rows may see a key
///   add(count, memory)                 adds the chunk's `count` pairs; tasks of higher keys have finished with them
///   finish(memory)                     stores the results of the keys
template <class T, class Sums>
class KeyTasks {
 public:
  KeyTasks(const TileFunctions<T>& tiles, const WorkList& work, Index chunk_rows, const Sums& sums, std::size_t tasks)
      : tiles_(tiles), work_(work), chunk_rows_(chunk_rows), sums_(sums), done_(tasks) {}

  /// wait(ready) returns when ready() is true. poll() is called after every chunk of query rows that was added.
  template <class Wait, class Poll>
  void run(const BackwardTask& task, const Wait& wait, const Poll& poll) {
    const WorkItem& item = work_.items[task.item];
    const Index heads = item.head_count, all = item.query.count * heads;
    std::atomic<Index>& done = done_[task.number];
    const std::atomic<Index>* above = task.highest ? nullptr : &done_[task.number - 1];
    typename Sums::Memory memory = sums_.start(task);
    RowWalk walk(work_, item.query);  // is at the first query row of the chunk
    BandKeys visible(work_, item);    // the keys of the whole piece that a row sees
    const Index first_key = key_t(item, task.first), last_key = key_t(item, task.first + task.count - 1);
    for (Index first = 0; first < all;) {
      const ChunkRows rows(item, walk, first, chunk_rows_, sums_.block());
      const bool near = rows.last_t + item.band.right >= first_key && rows.first_t - item.band.left <= last_key;
      if (near && load_ranges(task, rows, visible, memory.queries)) {
        sums_.load_queries(task, rows, memory);
        if (above) wait([&] { return above->load(std::memory_order_acquire) > first; });
        sums_.add(rows.count, memory);
        poll();
      }
      done.store(first + rows.count, std::memory_order_release);
      if (first + rows.count < all) walk.skip((first + rows.count) / heads - first / heads);
      first += rows.count;
    }
    sums_.finish(memory);
  }

 private:
  Index key_t(const WorkItem& item, Index number) const {
    RowWalk walk(work_, item.key);
    walk.skip(number);
    return walk.next().t;
  }

  /// Sets q.begin and q.end: which of the task's keys each row of a chunk sees. If this returns false, no row sees any
  /// of these keys.
  bool load_ranges(const BackwardTask& task, const ChunkRows& rows, BandKeys& visible, ScoreRows<T>& q) const {
    const Index count = rows.count;
    q.rows = int(core::ceil_div(count, Index(tiles_.backward_row_step)) * tiles_.backward_row_step);
    rows.for_each([&](Index i, Index t, Index, Index) {
      const KeyNumbers seen = visible.at(t);
      q.begin[i] = int(std::clamp<Index>(seen.begin - task.first, 0, task.count));
      q.end[i] = int(std::clamp<Index>(seen.end - task.first, 0, task.count));
    });
    std::fill(q.begin + count, q.begin + q.rows, q.begin[count - 1]);
    std::fill(q.end + count, q.end + q.rows, q.end[count - 1]);
    return q.begin[0] < q.end[count - 1];
  }

  const TileFunctions<T>& tiles_;
  const WorkList& work_;
  const Index chunk_rows_;
  const Sums& sums_;
  std::vector<std::atomic<Index>> done_;  // [task number] how many (query row, head) pairs the task has finished
};

}  // namespace annulus::kernels::host
