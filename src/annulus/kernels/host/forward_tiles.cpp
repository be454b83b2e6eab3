// The forward pass of one instruction set, which the compiler's flags and ANNULUS_INSTRUCTION_SET choose
// (instruction_sets.cmake). A tile of keys stays in the second-level cache while every group of rows reads it, in
// strips of kStripKeys keys. For each group and strip, these steps follow one another:
//   scores -> running maximum -> weights -> accumulator
// The strip of scores stays in the first-level cache. Running maxima hardly ever rise after the first strips
// (online_softmax.hpp). So if rows see all keys of a strip, and if kWeighsAtOnce is true, weights are computed directly
// with the current maxima, and scores are not stored. If a maximum must rise, the strip is computed again, in the steps
// above.
#include "annulus/kernels/host/forward_tiles.hpp"

#include "annulus/kernels/host/block.hpp"
#include "annulus/kernels/host/online_softmax.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

/// Keys begin ... end - 1, counted from the strip's first key.
struct Range {
  int begin;
  int end;

  /// Returns this range, extended by all keys that share a word with its keys.
  template <class T>
  Range whole_words() const {
    return {begin / kPerWord<T> * kPerWord<T>, round_up(end, kPerWord<T>)};
  }
};

/// One group of rows and one strip of keys of a tile.
template <class T>
struct Strip {
  const QueryPanels<T>& panels;
  std::int64_t first_row;  // of the group
  std::int64_t first_key;  // position in the piece
  int rows;                // rows of the group that exist; padding rows count as if they saw what the last row sees
  int keys;
  bool finite;        // whether all values of the tile are finite
  Number<T>* scores;  // [kStripKeys][kGroupRows]

  /// The weights that replace the scores in the same memory: [kStripKeys / kPerWord][kGroupRows].
  T* weights() const { return static_cast<T*>(static_cast<void*>(scores)); }

  int within(std::int64_t position) const {
    const std::int64_t key = position - first_key;
    return key < 0 ? 0 : key < keys ? int(key) : keys;
  }
  /// Return the keys that any of the rows [row, row + count) sees, and the keys that all of these rows see. From one
  /// row of a group to the next, begin and end never rise (QueryPanels), so the first and the last row decide.
  Range seen_by_any(int row, int count) const {
    const int last = row + count < rows ? row + count : rows;
    return {within(panels.begin[first_row + last - 1]), within(panels.end[first_row + row])};
  }
  Range seen_by_all(int row, int count) const {
    const int last = row + count < rows ? row + count : rows;
    return {within(panels.begin[first_row + row]), within(panels.end[first_row + last - 1])};
  }
};

/// The keys of a strip that each row of one vector sees.
template <class T>
struct Seen {
  using Limits = Vec<IntOf<Number<T>>>;
  Limits begin, end;

  ANNULUS_INLINE_MEMBER Seen(const Strip<T>& strip, int v) {
    constexpr int n = kLanes<T>;
    for (int i = 0; i < n; ++i) {
      const int row = v * n + i < strip.rows ? v * n + i : strip.rows - 1;
      begin[i] = strip.within(strip.panels.begin[strip.first_row + row]);
      end[i] = strip.within(strip.panels.end[strip.first_row + row]);
    }
  }
  /// Returns -1 for rows that see key number j of the strip, 0 for others.
  ANNULUS_INLINE_MEMBER Limits of(int j) const {
    const Limits key = Limits{} + IntOf<Number<T>>(j);
    return (key >= begin) & (key < end);
  }
};

/// Sets the scores of keys that a row does not see to -inf, for keys [from, from + kScoreKeys) and vector v of the
/// group. Returns `most`, raised to the largest of these scores.
template <class T>
ANNULUS_INLINE Vec<Number<T>> mask_scores(const Strip<T>& strip, int v, int from, Vec<Number<T>> most) {
  using N = Number<T>;
  const Seen<T> seen(strip, v);
  for (int j = from; j < from + kScoreKeys; ++j) {
    N* const scores = strip.scores + j * kGroupRows<T> + v * kLanes<T>;
    const Vec<N> score = seen.of(j) ? load<Vec<N>>(scores) : broadcast(-kInfinity<N>);
    store(scores, score);
    most = larger(score, most);
  }
  return most;
}

/// Computes scores of NV (or `vectors`) vectors of rows and kScoreKeys keys. If all rows see all of these keys
/// (`all_see`), raises `most` to the rows' largest scores. Otherwise the caller must mask the scores and raise `most`.
template <class T, int NV, class Rule>
ANNULUS_INLINE void score_some(const T* queries, const T* keys, int depth, Number<T> factor, Number<T>* scores,
                               Vec<Number<T>>* most, Rule rule, bool all_see) {
  if (all_see) return score_block<T, NV, true>(queries, keys, depth, factor, scores, most, rule);
  score_block<T, NV, false>(queries, keys, depth, factor, scores, most, rule);
}
template <class T, class Rule>
ANNULUS_INLINE void score_vectors(const T* queries, const T* keys, int depth, Number<T> factor, Number<T>* scores,
                                  Vec<Number<T>>* most, int vectors, Rule rule, bool all_see) {
  if constexpr (kQueryVectors == 3) {
    if (vectors == 3) return score_some<T, 3>(queries, keys, depth, factor, scores, most, rule, all_see);
  }
  if (vectors == 2) return score_some<T, 2>(queries, keys, depth, factor, scores, most, rule, all_see);
  score_some<T, 1>(queries, keys, depth, factor, scores, most, rule, all_see);
}

/// Computes scores of query block number `block` of the group and the strip's keys. The score of a row and a key that
/// the row does not see is -inf. Raises `most` to the rows' largest scores. `visible` has the keys that some row of
/// each vector sees. Example: AVX-512, 48 rows, causal, keys in descending order: only the last vector of rows sees the
/// first keys.
template <class T, class Rule>
ANNULUS_INLINE void score_query_block(const Strip<T>& strip, int block, const T* keys, int depth, const Range* visible,
                                      Vec<Number<T>>* most, Rule rule) {
  constexpr int n = kLanes<T>;
  const Number<T> factor = strip.panels.score_factor;
  const int first_row = block * kQueryBlock<T>, v0 = block * kQueryVectors;
  const Range all = strip.seen_by_all(first_row, kQueryBlock<T>), any = strip.seen_by_any(first_row, kQueryBlock<T>);
  const T* queries = strip.panels.queries + (strip.first_row + first_row) * depth;
  for (int j = any.begin / kScoreKeys * kScoreKeys; j < any.end; j += kScoreKeys) {
    Number<T>* const scores = strip.scores + j * kGroupRows<T> + first_row;
    const bool all_see = j >= all.begin && j + kScoreKeys <= all.end;
    if (all_see && first_row + kQueryBlock<T> <= round_up(strip.rows, n)) {
      score_block<T, kQueryVectors, true>(queries, keys + j * depth, depth, factor, scores, most + v0,
                                          rule.at(strip.first_row + first_row, j));
      continue;
    }
    int first = 0, end = kQueryVectors;
    while (first < end && (visible[v0 + first].begin >= j + kScoreKeys || visible[v0 + first].end <= j)) ++first;
    while (end > first && (visible[v0 + end - 1].begin >= j + kScoreKeys || visible[v0 + end - 1].end <= j)) --end;
    if (first == end) continue;
    score_vectors<T>(queries + first * n, keys + j * depth, depth, factor, scores + first * n, most + v0 + first,
                     end - first, rule.at(strip.first_row + first_row + first * n, j), all_see);
    for (int v = v0 + first; v < v0 + end && !all_see; ++v) most[v] = mask_scores(strip, v, j, most[v]);
  }
}

/// Returns how many columns of the values the next block takes if `columns` columns are left. Blocks have about equal
/// size, because the multiply-adds of a block with few accumulators would wait for each other. Example for AVX2, where
/// a block has at most 6 columns: 32 = 6 + 6 + 6 + 6 + 4 + 4
ANNULUS_INLINE int next_columns(int columns) {
  const int blocks = (columns + kScoreKeys - 1) / kScoreKeys;
  return round_up((columns + blocks - 1) / blocks, kColumnStep);
}

template <class T, int NV>
ANNULUS_INLINE void add_columns(int columns, const T* weights, const T* values, int stride, int words, Number<T>* acc) {
  if constexpr (kScoreKeys == 8) {
    if (columns == 8) return value_block<T, 8, NV>(weights, values, stride, words, acc);
  }
  if (columns == 6) return value_block<T, 6, NV>(weights, values, stride, words, acc);
  if (columns == 4) return value_block<T, 4, NV>(weights, values, stride, words, acc);
  value_block<T, 2, NV>(weights, values, stride, words, acc);
}

/// Words [begin, end) of a strip's keys, and the vectors [first, last) of rows that see them.
struct Span {
  int begin, end, first, last;
};

/// Cuts the words of a strip into spans, each seen by the same vectors of a query block, and appends the spans in
/// ascending order. v0 is the block's first vector. From one row to the next, begin and end never rise, so the vectors
/// that see a word follow one another. Example: AVX-512, 48 rows, causal, keys in descending order: only the last
/// vector of rows sees the first span.
ANNULUS_INLINE Span* append_spans(const Range* visible, int v0, Span* to) {
  const int v_end = v0 + kQueryVectors;
  for (int at = 0;; at = to++->end) {
    Span next = {kStripKeys, kStripKeys, v_end, v0};
    for (int v = v0; v < v_end; ++v) {
      const int begin = at_least(visible[v].begin, at);
      if (begin < visible[v].end && begin < next.begin) next.begin = begin;
    }
    if (next.begin == kStripKeys) return to;
    for (int v = v0; v < v_end; ++v) {
      const Range range = visible[v];
      if (range.begin > next.begin) {
        next.end = at_most(next.end, range.begin);
      } else if (range.end > next.begin) {
        next.end = at_most(next.end, range.end);
        next.first = at_most(next.first, v);
        next.last = v + 1;
      }
    }
    *to = next;
  }
}

/// Adds weights times values of a strip to the accumulators of its group. `visible` has the words of keys that some row
/// of each vector sees.
template <class T>
ANNULUS_INLINE void add_values(const Strip<T>& strip, const Range* visible, const T* values, int stride,
                               Number<T>* acc) {
  Span spans[2 * kGroupVectors<T>];
  Span* end = spans;
  for (int v = 0; v * kLanes<T> < strip.rows; v += kQueryVectors) end = append_spans(visible, v, end);
  const int all = round_up(strip.panels.value_dim, kColumnStep);
  for (int column = 0, columns; column < all; column += columns) {
    columns = next_columns(all - column);
    for (const Span* span = spans; span < end; ++span) {
      const int row = span->first * kLanes<T>, words = span->end - span->begin;
      const T* const weights = strip.weights() + span->begin * kGroupRows<T> + row;
      const T* const from = values + std::int64_t(column) * stride + span->begin;
      Number<T>* const to = acc + column * kGroupRows<T> + row;
      switch (span->last - span->first) {
        case 1:
          add_columns<T, 1>(columns, weights, from, stride, words, to);
          break;
        case 2:
          add_columns<T, 2>(columns, weights, from, stride, words, to);
          break;
        default:
          add_columns<T, kQueryVectors>(columns, weights, from, stride, words, to);
      }
    }
  }
}

/// Replaces add_values() if some values are not finite. Leaves out the keys that a row does not see, row by row,
/// because their weight 0 times infinity is NaN.
template <class T>
__attribute__((noinline)) void add_values_seen(const Strip<T>& strip, const Range* visible, const T* values, int stride,
                                               Number<T>* acc) {
  using N = Number<T>;
  constexpr int n = kLanes<T>, row = kGroupRows<T>;
  const int columns = round_up(strip.panels.value_dim, kColumnStep);
  for (int v = 0; v * n < strip.rows; ++v) {
    const Seen<T> seen(strip, v);
    const T* const weights = strip.weights() + v * n;
    for (int column = 0; column < columns; ++column) {
      N* const to = acc + column * row + v * n;
      Vec<N> sum = load<Vec<N>>(to);
      for (int j = visible[v].begin; j < visible[v].end; ++j) {
        const Vec<T> value = broadcast(values[std::int64_t(column) * stride + j]);
        for (int i = 0; i < kPerWord<T>; ++i) {
          Vec<N> more = sum;
          multiply_add_one<T>(more, load<Vec<T>>(weights + j * row), value, i);
          sum = seen.of(j * kPerWord<T> + i) ? more : sum;
        }
      }
      store(to, sum);
    }
  }
}

/// Computes weights of query block number `block` with the current maxima. All rows of the block must see all of the
/// strip's keys. Returns false if a row has no maximum yet, if a maximum must rise, or if a bias makes this likely.
/// Then maxima and sums are unchanged, and the weights in memory are useless.
template <class T, bool kEntropy, class Rule>
ANNULUS_INLINE bool weigh_at_once(const Strip<T>& strip, int block, const T* keys, int depth, Rule rule) {
  using N = Number<T>;
  constexpr int n = kLanes<T>, vectors = kQueryVectors;
  const int first_row = block * kQueryBlock<T>;
  const std::int64_t row = strip.first_row + first_row;
  if constexpr (Rule::changes) {
    if (rule.at(row, 0).likely_grows(strip.keys)) return false;
  }
  StandingRows<N, vectors> rows;
  for (int v = 0; v < vectors; ++v) {
    const Vec<N> max = load<Vec<N>>(strip.panels.max + row + v * n);
    if (any_above(broadcast(-kLargest<N>), max)) return false;
    rows.shift[v] = shift_of<N>(max, strip.panels.exponent_bias);
    rows.sum[v] = load<Vec<N>>(strip.panels.sum + row + v * n);
    if constexpr (kEntropy) rows.score_sum[v] = load<Vec<N>>(strip.panels.score_sum + row + v * n);
    rows.most[v] = max;
  }
  const T* queries = strip.panels.queries + row * depth;
  for (int j = 0; j < strip.keys; j += kScoreKeys)
    weight_block<T, vectors, kEntropy>(queries, keys + j * depth, depth, strip.panels.score_factor,
                                       strip.weights() + j / kPerWord<T> * kGroupRows<T> + first_row, rows,
                                       rule.at(row, j));
  for (int v = 0; v < vectors; ++v)
    if (any_above(rows.most[v], load<Vec<N>>(strip.panels.max + row + v * n))) return false;
  for (int v = 0; v < vectors; ++v) {
    store(strip.panels.sum + row + v * n, rows.sum[v]);
    if constexpr (kEntropy) store(strip.panels.score_sum + row + v * n, rows.score_sum[v]);
  }
  return true;
}

/// True if weigh_at_once() is faster (kWeighsAtOnce) and can be used. For this, every vector of the query block must
/// have rows, the rows must see all of the strip's keys, and the keys must fill whole blocks of kScoreKeys.
template <class T>
ANNULUS_INLINE bool sees_whole_strip(const Strip<T>& strip, int block) {
  if (!kWeighsAtOnce<Number<T>>) return false;
  const Range all = strip.seen_by_all(block * kQueryBlock<T>, kQueryBlock<T>);
  return all.begin == 0 && all.end == strip.keys && strip.keys % kScoreKeys == 0 &&
         (block + 1) * kQueryBlock<T> <= round_up(strip.rows, kLanes<T>);
}

template <class T, bool kEntropy, class Rule>
void add_strip(const Strip<T>& strip, const T* keys, const T* values, int stride, Rule rule) {
  using N = Number<T>;
  constexpr int n = kLanes<T>, vectors = kGroupVectors<T>;
  const QueryPanels<T>& panels = strip.panels;
  const int depth = row_words<T>(panels.head_dim), columns = round_up(panels.value_dim, kColumnStep);
  N* const acc = panels.acc + strip.first_row * columns;
  const Range seen = strip.seen_by_any(0, kGroupRows<T>);
  if (seen.begin >= seen.end) return;

  Vec<N> most[vectors];
  Range visible[vectors];
  for (int v = 0; v < vectors; ++v) {
    most[v] = broadcast(-kInfinity<N>);
    visible[v] = v * n < strip.rows ? strip.seen_by_any(v * n, n) : Range{0, 0};
    visible[v] = visible[v].begin < visible[v].end ? visible[v].template whole_words<T>() : Range{0, 0};
  }
  bool weighed[vectors / kQueryVectors] = {};
  for (int b = 0; b * kQueryBlock<T> < strip.rows; ++b) {
    weighed[b] = sees_whole_strip(strip, b) && weigh_at_once<T, kEntropy>(strip, b, keys, depth, rule);
    if (!weighed[b]) score_query_block(strip, b, keys, depth, visible, most, rule);
  }
  for (int v = 0; v * n < strip.rows; ++v) {
    if (weighed[v / kQueryVectors]) continue;
    const Range range = visible[v];
    const std::int64_t row = strip.first_row + v * n;
    const RunningRows<N> rows{panels.max + row, panels.sum + row, kEntropy ? panels.score_sum + row : nullptr,
                              acc + v * n, columns};
    weigh_rows<T, kEntropy>(rows, strip.scores + range.begin * kGroupRows<T> + v * n,
                            strip.weights() + range.begin / kPerWord<T> * kGroupRows<T> + v * n,
                            range.end - range.begin, most[v], panels.exponent_bias);
  }
  for (int v = 0; v < vectors; ++v) visible[v] = {visible[v].begin / kPerWord<T>, visible[v].end / kPerWord<T>};
  const Range all = strip.seen_by_all(0, kGroupRows<T>);
  if (strip.finite || (all.begin == 0 && all.end == strip.keys))
    add_values(strip, visible, values, stride, acc);
  else
    add_values_seen(strip, visible, values, stride, acc);
}

template <class T, bool kEntropy, class Rule>
ANNULUS_INLINE void add_strips(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores, Rule rule) {
  const DenormalsAreZero for_pairs(kPerWord<T> > 1);
  const int depth = row_words<T>(panels.head_dim);
  for (std::int64_t row = 0; row < panels.rows; row += kGroupRows<T>) {
    const int rows = panels.rows - row < kGroupRows<T> ? int(panels.rows - row) : kGroupRows<T>;
    for (int first = 0; first < tile.count; first += kStripKeys) {
      const int keys = tile.count - first < kStripKeys ? tile.count - first : kStripKeys;
      const Strip<T> strip{panels, row, tile.first + first, rows, keys, tile.finite, scores};
      add_strip<T, kEntropy>(strip, tile.keys + std::int64_t(first) * depth, tile.values + first / kPerWord<T>,
                             tile.capacity, rule.at(0, first));
    }
  }
}

}  // namespace

template <class T, bool kEntropy>
void add_tile(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores) {
  add_strips<T, kEntropy>(panels, tile, scores, NoRule());
}
template <class T, bool kEntropy>
void add_ruled_tile(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores) {
  add_strips<T, kEntropy>(panels, tile, scores, RuledRows<Number<T>>{panels.rule, 0, 0});
}

#define ANNULUS_FORWARD_TILES(T, kEntropy)                                                   \
  template void add_tile<T, kEntropy>(const QueryPanels<T>&, const KeyTile<T>&, Number<T>*); \
  template void add_ruled_tile<T, kEntropy>(const QueryPanels<T>&, const KeyTile<T>&, Number<T>*)

#if !defined(ANNULUS_ONLY_PAIRS)
ANNULUS_FORWARD_TILES(float, false);
ANNULUS_FORWARD_TILES(float, true);
ANNULUS_FORWARD_TILES(double, false);
ANNULUS_FORWARD_TILES(double, true);
#endif
ANNULUS_FORWARD_TILES(BFloat16Pair, false);
ANNULUS_FORWARD_TILES(BFloat16Pair, true);

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
