// The tile operations of one instruction set, which the compiler's flags and ANNULUS_INSTRUCTION_SET choose
// (instruction_sets.cmake). A tile of keys stays in the second-level cache while every group of rows passes over it,
// strip by strip:
//   scores -> running maximum -> weights -> accumulator, the strip of scores in the first-level cache.
// Running maxima hardly ever rise after the first strips (online_softmax.hpp). So where rows see all of a strip, scores
// become weights at once, with the maxima as they are; only if one had to rise the strip is done again, in order.
#include "annulus/kernels/host/backward_tiles.hpp"
#include "annulus/kernels/host/block.hpp"
#include "annulus/kernels/host/online_softmax.hpp"
#include "annulus/kernels/host/pack.hpp"
#include "annulus/kernels/host/statistic_tiles.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

/// Keys of a strip, counted from its first.
struct Range {
  int begin;
  int end;
};

/// One group of rows before one strip of keys of a tile.
template <class T>
struct Strip {
  const QueryPanels<T>& panels;
  std::int64_t first_row;  // of the group
  std::int64_t first_key;  // position in the piece
  int rows;                // real ones in the group; the others are copies of the last
  int keys;
  T* scores;  // [kStripKeys][kGroupRows]

  int within(std::int64_t position) const {
    const std::int64_t key = position - first_key;
    return key < 0 ? 0 : key < keys ? int(key) : keys;
  }
  /// Keys that any of the rows [row, row + count) sees, and those that all of them see. A later row of a group never
  /// begins or ends after an earlier one (QueryPanels), so the outermost rows tell.
  Range seen_by_any(int row, int count) const {
    const int last = row + count < rows ? row + count : rows;
    return {within(panels.begin[first_row + last - 1]), within(panels.end[first_row + row])};
  }
  Range seen_by_all(int row, int count) const {
    const int last = row + count < rows ? row + count : rows;
    return {within(panels.begin[first_row + row]), within(panels.end[first_row + last - 1])};
  }
};

/// Masks the scores of keys [from, from + kScoreKeys) for vector number v of the group and returns the rows' maxima.
template <class T>
ANNULUS_INLINE Vec<T> mask_scores(const Strip<T>& strip, int v, int from, Vec<T> most) {
  constexpr int n = kLanes<T>;
  using Limits = Vec<IntOf<T>>;
  Limits begin, end;
  for (int i = 0; i < n; ++i) {
    const int row = v * n + i < strip.rows ? v * n + i : strip.rows - 1;
    begin[i] = strip.within(strip.panels.begin[strip.first_row + row]);
    end[i] = strip.within(strip.panels.end[strip.first_row + row]);
  }
  for (int j = from; j < from + kScoreKeys; ++j) {
    T* const scores = strip.scores + j * kGroupRows<T> + v * n;
    const Limits key = Limits{} + IntOf<T>(j);
    const auto seen = (key >= begin) & (key < end);
    const Vec<T> score = seen ? load<Vec<T>>(scores) : broadcast(-kInfinity<T>);
    store(scores, score);
    most = larger(score, most);
  }
  return most;
}

/// Scores of a query block's vectors [first, first + NV) against keys [j, j + kScoreKeys).
template <class T, bool kMaximum>
ANNULUS_INLINE void score_vectors(const T* queries, const T* keys, int depth, T* scores, Vec<T>* most, int vectors) {
  if constexpr (kQueryVectors == 3) {
    if (vectors == 3) return score_block<T, 3, kMaximum>(queries, keys, depth, scores, most);
  }
  if (vectors == 2) return score_block<T, 2, kMaximum>(queries, keys, depth, scores, most);
  score_block<T, 1, kMaximum>(queries, keys, depth, scores, most);
}

/// Scores of query block number `block` of the group against the strip's keys, masked where a row must not look; most
/// gets the rows' maxima, visible what the rows of each vector see.
///   AVX-512, 48 rows, causal, reversed keys: the first keys are seen by the last vector of rows only.
template <class T>
ANNULUS_INLINE void score_query_block(const Strip<T>& strip, int block, const T* keys, int depth, const Range* visible,
                                      Vec<T>* most) {
  constexpr int n = kLanes<T>;
  const int first_row = block * kQueryBlock<T>, v0 = block * kQueryVectors;
  const Range all = strip.seen_by_all(first_row, kQueryBlock<T>), any = strip.seen_by_any(first_row, kQueryBlock<T>);
  const T* queries = strip.panels.queries + (strip.first_row + first_row) * depth;
  for (int j = any.begin / kScoreKeys * kScoreKeys; j < any.end; j += kScoreKeys) {
    T* const scores = strip.scores + j * kGroupRows<T> + first_row;
    if (j >= all.begin && j + kScoreKeys <= all.end && first_row + kQueryBlock<T> <= round_up(strip.rows, n)) {
      score_block<T, kQueryVectors, true>(queries, keys + j * depth, depth, scores, most + v0);
      continue;
    }
    int first = 0, end = kQueryVectors;
    while (first < end && (visible[v0 + first].begin >= j + kScoreKeys || visible[v0 + first].end <= j)) ++first;
    while (end > first && (visible[v0 + end - 1].begin >= j + kScoreKeys || visible[v0 + end - 1].end <= j)) --end;
    if (first == end) continue;
    score_vectors<T, false>(queries + first * n, keys + j * depth, depth, scores + first * n, most + v0 + first,
                            end - first);
    for (int v = v0 + first; v < v0 + end; ++v) most[v] = mask_scores(strip, v, j, most[v]);
  }
}

/// Weights outside of what a vector of rows sees are 0 for the row blocks that reach into it.
template <class T>
ANNULUS_INLINE void clear_weights(const Strip<T>& strip, int v, int begin, int end) {
  for (int j = begin; j < end; ++j) store(strip.scores + j * kGroupRows<T> + v * kLanes<T>, Vec<T>{});
}

template <class T>
ANNULUS_INLINE void add_values(const Strip<T>& strip, const T* values, int capacity, T* acc) {
  constexpr int block = kKeyBlock<T>;
  const int slabs = slab_count<T>(strip.panels.head_dim);
  for (int s = 0; s < slabs; ++s) {
    const T* slab = values + std::int64_t(s) * capacity * block;
    const bool wide = strip.panels.head_dim - s * block > kLanes<T>;
    for (int row = 0; row < strip.rows; row += kRowBlock) {
      const Range seen = strip.seen_by_any(row, kRowBlock);
      T* const to = acc + (row * slabs + s * kRowBlock) * block;
      const T* const weights = strip.scores + seen.begin * kGroupRows<T> + row;
      if (wide)
        value_block<T, 2>(weights, slab + seen.begin * block, seen.end - seen.begin, to);
      else
        value_block<T, 1>(weights, slab + seen.begin * block, seen.end - seen.begin, to);
    }
  }
}

/// Weights of query block number `block` of the group, all of whose rows see all of the strip's keys, with the maxima
/// as they are. False where a row has none yet or one has to rise: nothing but the strip has changed then.
template <class T, bool kEntropy>
ANNULUS_INLINE bool weigh_at_once(const Strip<T>& strip, int block, const T* keys, int depth) {
  constexpr int n = kLanes<T>, vectors = kQueryVectors;
  const int first_row = block * kQueryBlock<T>;
  const std::int64_t row = strip.first_row + first_row;
  StandingRows<T, vectors> rows;
  for (int v = 0; v < vectors; ++v) {
    const Vec<T> max = load<Vec<T>>(strip.panels.max + row + v * n);
    if (any_above(broadcast(-kLargest<T>), max)) return false;
    rows.shift[v] = max - strip.panels.exponent_bias;
    rows.sum[v] = load<Vec<T>>(strip.panels.sum + row + v * n);
    if constexpr (kEntropy) rows.score_sum[v] = load<Vec<T>>(strip.panels.score_sum + row + v * n);
    rows.most[v] = max;
  }
  const T* queries = strip.panels.queries + row * depth;
  for (int j = 0; j < strip.keys; j += kScoreKeys)
    weight_block<T, vectors, kEntropy>(queries, keys + j * depth, depth, strip.scores + j * kGroupRows<T> + first_row,
                                       rows);
  for (int v = 0; v < vectors; ++v)
    if (any_above(rows.most[v], load<Vec<T>>(strip.panels.max + row + v * n))) return false;
  for (int v = 0; v < vectors; ++v) {
    store(strip.panels.sum + row + v * n, rows.sum[v]);
    if constexpr (kEntropy) store(strip.panels.score_sum + row + v * n, rows.score_sum[v]);
  }
  return true;
}

/// Whether weigh_at_once() will do: all rows of a query block exist and see all of the strip's keys, which are whole
/// blocks.
template <class T>
ANNULUS_INLINE bool sees_whole_strip(const Strip<T>& strip, int block) {
  if (!kWeighsAtOnce<T>) return false;
  const Range all = strip.seen_by_all(block * kQueryBlock<T>, kQueryBlock<T>);
  return all.begin == 0 && all.end == strip.keys && strip.keys % kScoreKeys == 0 &&
         (block + 1) * kQueryBlock<T> <= round_up(strip.rows, kLanes<T>);
}

template <class T, bool kEntropy>
void add_strip(const Strip<T>& strip, const T* keys, const T* values, int capacity) {
  constexpr int n = kLanes<T>, vectors = kGroupVectors<T>;
  const QueryPanels<T>& panels = strip.panels;
  const int depth = padded_depth<T>(panels.head_dim), slabs = slab_count<T>(panels.head_dim);
  T* const acc = panels.acc + strip.first_row * slabs * kKeyBlock<T>;
  const Range any = strip.seen_by_any(0, kGroupRows<T>);
  if (any.begin >= any.end) return;

  Vec<T> most[vectors];
  Range visible[vectors];
  for (int v = 0; v < vectors; ++v) {
    most[v] = broadcast(-kInfinity<T>);
    visible[v] = v * n < strip.rows ? strip.seen_by_any(v * n, n) : Range{any.end, any.end};
    if (visible[v].begin >= visible[v].end) visible[v] = {any.end, any.end};
  }
  bool weighed[vectors / kQueryVectors] = {};
  for (int b = 0; b * kQueryBlock<T> < strip.rows; ++b) {
    weighed[b] = sees_whole_strip(strip, b) && weigh_at_once<T, kEntropy>(strip, b, keys, depth);
    if (!weighed[b]) score_query_block(strip, b, keys, depth, visible, most);
  }
  for (int v = 0; v < vectors; ++v) {
    if (weighed[v / kQueryVectors]) continue;
    const Range range = visible[v];
    const std::int64_t row = strip.first_row + v * n;
    const RunningRows<T> rows{
        panels.max + row, panels.sum + row, kEntropy ? panels.score_sum + row : nullptr, acc, v * n, slabs};
    clear_weights(strip, v, any.begin, range.begin);
    weigh_rows<T, kEntropy>(rows, strip.scores + range.begin * kGroupRows<T> + v * n, range.end - range.begin, most[v],
                            panels.exponent_bias);
    clear_weights(strip, v, range.end, any.end);
  }
  add_values(strip, values, capacity, acc);
}

template <class T, bool kEntropy>
void add_tile(const QueryPanels<T>& panels, const KeyTile<T>& tile, T* scores) {
  const int depth = padded_depth<T>(panels.head_dim);
  for (std::int64_t row = 0; row < panels.rows; row += kGroupRows<T>) {
    const int rows = panels.rows - row < kGroupRows<T> ? int(panels.rows - row) : kGroupRows<T>;
    for (int first = 0; first < tile.count; first += kStripKeys) {
      const int keys = tile.count - first < kStripKeys ? tile.count - first : kStripKeys;
      const Strip<T> strip{panels, row, tile.first + first, rows, keys, scores};
      add_strip<T, kEntropy>(strip, tile.keys + std::int64_t(first) * depth, tile.values + first * kKeyBlock<T>,
                             tile.capacity);
    }
  }
}

template <class T>
constexpr TileFunctions<T> kTable = {
    .group_rows = kGroupRows<T>,
    .query_block = kQueryBlock<T>,
    .row_block = kRowBlock,
    .column_block = kKeyBlock<T>,
    .key_step = kScoreKeys,
    .strip_keys = kStripKeys,
    .depth_step = kUnroll<T>,
    .backward_row_step = kRowStep,
    .backward_key_step = kKeyStep<T>,
    .strip_stride = kStripStride<T>,
    .pack_queries = {pack_side_by_side<T, double, kQueryBlock<T>>, pack_side_by_side<T, float, kQueryBlock<T>>,
                     pack_side_by_side<T, HalfBits, kQueryBlock<T>>,
                     pack_side_by_side<T, BFloat16Bits, kQueryBlock<T>>},
    .pack_transposed = {pack_side_by_side<T, double, kKeyBlock<T>>, pack_side_by_side<T, float, kKeyBlock<T>>,
                        pack_side_by_side<T, HalfBits, kKeyBlock<T>>, pack_side_by_side<T, BFloat16Bits, kKeyBlock<T>>},
    .pack_rows = {pack_rows<T, double>, pack_rows<T, float>, pack_rows<T, HalfBits>, pack_rows<T, BFloat16Bits>},
    .pack_slabs = {pack_slabs<T, double>, pack_slabs<T, float>, pack_slabs<T, HalfBits>, pack_slabs<T, BFloat16Bits>},
    .load_rows = load_rows<T>,
    .store_rows = store_rows<T>,
    .add_tile = {add_tile<T, false>, add_tile<T, true>},
    .add_chunks = add_chunks<T>,
    .add_statistics = add_statistics<T>,
    .dot = {dot<T, double>, dot<T, float>, dot<T, HalfBits>, dot<T, BFloat16Bits>},
    .store_row = {store_row<T, double>, store_row<T, float>, store_row<T, HalfBits>, store_row<T, BFloat16Bits>}};

}  // namespace

const TileFunctions<float> float_tiles = kTable<float>;
const TileFunctions<double> double_tiles = kTable<double>;

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
