// The forward pass of the instruction set amx, for products of bfloat16 (see TileFunctions): the tile's keys in steps
// of 64, rows in groups of 32. It is compiled for the matrix unit, and for vectors instead of it
// (instruction_sets.cmake), with the same bits: all operations besides the products are the same, in the same order.
//
// m, l and accumulators are those of online_softmax.hpp, with two exceptions: a score may be above m by a little less
// than 1, and products of the matrix unit add up l, from the rounded weights.
#include "annulus/kernels/host/amx/forward_step.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

using Pair = BFloat16Pair;

/// Walks over those steps of a tile in which a row sees a key, one group of rows after another.
class Walk {
 public:
  ANNULUS_INLINE_MEMBER Walk(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile)
      : panels_(panels),
        tile_(tile),
        key_words_(4 * depth_tiles(panels.head_dim) * kTileWords),
        value_words_(2 * column_tiles(panels.head_dim) * kTileWords) {
    enter_group(0);
  }

  ANNULUS_INLINE_MEMBER bool is_done() const { return step_.row >= panels_.rows; }
  ANNULUS_INLINE_MEMBER const Step& step() const { return step_; }
  ANNULUS_INLINE_MEMBER void go_on() {
    const int key = step_.first_key + kStepKeys;
    if (key >= end_) return enter_group(step_.row + kStepRows);
    step_.keys += key_words_;
    step_.values += value_words_;
    enter_step(key);
  }

 private:
  ANNULUS_INLINE_MEMBER void enter_step(int key) {
    step_.first_key = key;
    step_.is_masked = key < whole_begin_ || key + kStepKeys > whole_end_;
  }
  /// Goes to the first group, from row number `row` on, that sees a key of the tile, and to its first step with one.
  void enter_group(std::int64_t row) {
    const int depth = depth_tiles(panels_.head_dim), columns = column_tiles(panels_.head_dim);
    for (; row < panels_.rows; row += kStepRows) {
      const std::int64_t last = row + kStepRows < panels_.rows ? row + kStepRows - 1 : panels_.rows - 1;
      const int begin = within(panels_.begin[last]);
      end_ = within(panels_.end[row]);
      if (begin >= end_) continue;
      whole_begin_ = within(panels_.begin[row]);
      // At most tile_.count: a last step that zeros fill up counts as masked, because no row sees the zeros.
      whole_end_ = within(panels_.end[last]);
      const int number = begin / kStepKeys;
      step_.keys = tile_.keys + std::int64_t(number) * key_words_;
      step_.values = tile_.values + std::int64_t(number) * value_words_;
      step_.queries = panels_.queries + row * depth * kTileRows;
      step_.acc = panels_.acc + row * columns * kTileRows;
      step_.sum = panels_.sum + row;
      step_.max = panels_.max + row;
      enter_step(number * kStepKeys);
      break;
    }
    step_.row = row;
  }
  int within(std::int64_t position) const {
    const std::int64_t key = position - tile_.first;
    return key < 0 ? 0 : key < tile_.count ? int(key) : tile_.count;
  }

  const QueryPanels<Pair>& panels_;
  const KeyTile<Pair>& tile_;
  const int key_words_, value_words_;  // of a step
  int end_ = 0;                        // end of the keys that some row of the group sees; next line: those that all see
  int whole_begin_ = 0, whole_end_ = 0;
  Step step_ = {};
};

/// The work of one call: one tile of keys and all rows.
class TileWork {
 public:
  ANNULUS_INLINE_MEMBER TileWork(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile)
      : panels_(panels), tile_(tile), depth_(depth_tiles(panels.head_dim)), columns_(column_tiles(panels.head_dim)) {}

  template <int kColumnTiles>
  void run();
  void run_plainly();

 private:
  float factor() const { return panels_.score_factor; }
  /// Number of row i of the step; a row that does not exist sees what the last existing one sees.
  std::int64_t row_of(const Step& step, int i) const {
    return step.row + i < panels_.rows ? step.row + i : panels_.rows - 1;
  }
  void hide_unseen(const Step& step, float* scores) const;
  void raise_maxima(const Step& step, const float* scores) const;
  void rescale(const Step& step, int row, float by) const;
  bool has_empty_rows(const Step& step) const;
  void weigh_again(const Step& now);
  void add_seen(const Step& step) const;

  const QueryPanels<Pair>& panels_;
  const KeyTile<Pair>& tile_;
  const int depth_, columns_;
  TileRegisters tiles_;
  StepMemory memory_;
};

/// Sets scores of keys that a row does not see to -inf.
void TileWork::hide_unseen(const Step& step, float* scores) const {
  constexpr int n = kLanes<float>;
  const std::int64_t first = tile_.first + step.first_key;
  const auto within = [&](std::int64_t position) {
    return position < first ? 0 : position > first + kStepKeys ? kStepKeys : int(position - first);
  };
  for (int v = 0; v < kStepRows / n; ++v) {
    Vec<std::int32_t> begin, end;
    for (int i = 0; i < n; ++i) {
      const std::int64_t row = row_of(step, v * n + i);
      begin[i] = within(panels_.begin[row]);
      end[i] = within(panels_.end[row]);
    }
    float* const column = scores + v * n / kTileRows * kTileWords + v * n % kTileRows;
    for (int key = 0; key < kStepKeys; ++key) {
      float* const score = column + key / kTileRows * kHalves * kTileWords + key % kTileRows * kTileRows;
      const Vec<std::int32_t> number = Vec<std::int32_t>{} + key;
      const auto is_seen = (number >= begin) & (number < end);
      store(score, is_seen ? load<Floats>(score) : broadcast(-kInfinity<float>));
    }
  }
}

/// Brings a row's l and accumulators to another scale: times 2^by, where `by` is an even number below 0. It multiplies
/// twice by 2^(by / 2), because 2^by may be too small for a float.
void TileWork::rescale(const Step& step, int row, float by) const {
  const float half = by / 2;
  const float root = half < -126 ? 0.f : bits_as<float>(std::uint32_t(int(half) + 127) << 23);
  step.sum[row] = step.sum[row] * root * root;
  float* number = step.acc + row;
  for (int column = 0; column < columns_ * kTileRows; ++column, number += kStepRows) *number = *number * root * root;
}

/// Raises m of those rows that have a score above it, and brings their sums to the new scale.
void TileWork::raise_maxima(const Step& step, const float* scores) const {
  constexpr int n = kLanes<float>;
  alignas(64) float largest[kStepRows];
  for (int v = 0; v < kStepRows / n; ++v) {
    const float* const column = scores + v * n / kTileRows * kTileWords + v * n % kTileRows;
    Floats most = broadcast(-kInfinity<float>);
    for (int key = 0; key < kStepKeys; ++key) {
      const auto score = load<Floats>(column + key / kTileRows * kHalves * kTileWords + key % kTileRows * kTileRows);
      most = larger(score * broadcast(factor()), most);
    }
    store(largest + v * n, most);
  }
  for (int row = 0; row < kStepRows; ++row) {
    const float before = step.max[row];
    if (!(largest[row] > before)) continue;
    const float now = maximum_for(largest[row]) < kLargest<float> ? maximum_for(largest[row]) : kLargest<float>;
    step.max[row] = now;
    if (before > -kInfinity<float>) rescale(step, row, before - now);
  }
}

/// Whether some row has seen no key yet.
bool TileWork::has_empty_rows(const Step& step) const {
  for (int v = 0; v < kStepRows; v += kLanes<float>)
    if (any_above(broadcast(-kLargest<float>), load<Floats>(step.max + v))) return true;
  return false;
}

/// Makes a step's weights again, now for any scores. memory_ already has scores of the next step: it keeps them.
void TileWork::weigh_again(const Step& now) {
  alignas(64) float next[kStepKeys * kStepRows];
  __builtin_memcpy(next, memory_.scores, sizeof next);
  add_scores_plainly(tiles_, now, depth_, memory_.scores);
  if (now.is_masked) hide_unseen(now, memory_.scores);
  raise_maxima(now, memory_.scores);
  weigh_with_care(memory_, now.max, factor());
  __builtin_memcpy(memory_.scores, next, sizeof next);
}

template <int kColumnTiles>
void TileWork::run() {
  alignas(64) float nowhere[2 * kTileWords];
  const LateStore none{nowhere + kTileWords, 64};
  constexpr bool two = kTwoLate<kDepthOf<kColumnTiles>>;
  Walk walk(panels_, tile_);
  if (walk.is_done()) return;
  Step steps[3] = {walk.step(), walk.step(), {}};
  Step *before = &steps[0], *now = &steps[1], *next = &steps[2];
  // The first call of advance() adds values of its own step with weight 0; the last one computes unused scores.
  __builtin_memset(memory_.weights, 0, sizeof memory_.weights);
  add_scores_plainly(tiles_, *now, depth_, memory_.scores);
  LateStore late = none;
  for (bool more = true; more;) {
    walk.go_on();
    more = !walk.is_done();
    *next = more ? walk.step() : *now;
    const bool has_empty = has_empty_rows(*now);
    if (now->is_masked || has_empty) {
      flush(tiles_, two, late);
      late = none;
      if (now->is_masked) hide_unseen(*now, memory_.scores);
      if (has_empty) raise_maxima(*now, memory_.scores);
    }
    if (advance<kColumnTiles>(tiles_, memory_, *next, *now, *before, factor(), late)) {
      flush(tiles_, two, late);
      late = none;
      weigh_again(*now);
    }
    Step* const free = before;
    before = now;
    now = next;
    next = free;
  }
  add_step_plainly(tiles_, *before, columns_, memory_.weights);
}

/// Adds a step whose values are not all finite: leaves out keys that a row does not see, row by row, because their
/// weight 0 times infinity is NaN. The chains of multiply-adds are those of the matrix unit.
void TileWork::add_seen(const Step& step) const {
  const auto half_of = [](Pair word, int half) {
    return bits_as<float>(half == 0 ? word.bits << 16 : word.bits & 0xffff0000u);
  };
  for (int i = 0; i < kStepRows; ++i) {
    const std::int64_t row = row_of(step, i), begin = panels_.begin[row] - tile_.first - step.first_key,
                       end = panels_.end[row] - tile_.first - step.first_key;
    for (int column = 0; column < columns_ * kTileRows; ++column) {
      float& sum = step.acc[column * kStepRows + i];
      for (int product = 0; product < 2; ++product) {
        const Pair* const values =
            step.values + (column / kTileRows * 2 + product) * kTileWords + column % kTileRows * kTileRows;
        const Pair* const weights = memory_.weights + (product * kHalves + i / kTileRows) * kTileWords + i % kTileRows;
        float chains[2] = {};
        for (int key = 0; key < kProductDepth; ++key) {
          const int number = product * kProductDepth + key;
          if (number < begin || number >= end) continue;
          float& chain = chains[key % 2];
          chain =
              __builtin_fmaf(half_of(values[key / 2], key % 2), half_of(weights[key / 2 * kTileRows], key % 2), chain);
        }
        sum += chains[0] + chains[1];
      }
    }
  }
}

/// Does run()'s work one thing after another, for tiles whose values are not all finite.
void TileWork::run_plainly() {
  for (Walk walk(panels_, tile_); !walk.is_done(); walk.go_on()) {
    const Step step = walk.step();
    add_scores_plainly(tiles_, step, depth_, memory_.scores);
    if (step.is_masked) hide_unseen(step, memory_.scores);
    raise_maxima(step, memory_.scores);
    weigh_with_care(memory_, step.max, factor());
    if (step.is_masked) {
      add_seen(step);
      add_sums_plainly(tiles_, step, memory_.weights);
    } else {
      add_step_plainly(tiles_, step, columns_, memory_.weights);
    }
  }
}

template <int kColumnTiles>
void add_tile_of(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile) {
  TileWork(panels, tile).run<kColumnTiles>();
}
void add_tile_plainly(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile) {
  TileWork(panels, tile).run_plainly();
}

using AddTile = void (*)(const QueryPanels<Pair>&, const KeyTile<Pair>&);
constexpr AddTile kAddTile[] = {add_tile_of<1>,  add_tile_of<2>,  add_tile_of<3>,  add_tile_of<4>,
                                add_tile_of<5>,  add_tile_of<6>,  add_tile_of<7>,  add_tile_of<8>,
                                add_tile_of<9>,  add_tile_of<10>, add_tile_of<11>, add_tile_of<12>,
                                add_tile_of<13>, add_tile_of<14>, add_tile_of<15>, add_tile_of<16>};
static_assert(sizeof kAddTile / sizeof kAddTile[0] == kMaxMatrixDim / kTileRows);

void add_tile(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile, float*) {
  const DenormalsAreZero as_the_matrix_unit_has_it(true);
  (tile.finite ? kAddTile[column_tiles(panels.head_dim) - 1] : add_tile_plainly)(panels, tile);
}

/// C += A B, for tests.
void multiply_tiles(const void* a, const void* b, float* c) {
  const DenormalsAreZero as_the_matrix_unit_has_it(true);
  TileRegisters tiles;
  tiles.load<0>(c);
  tiles.load<1>(a);
  tiles.load<2>(b);
  tiles.multiply<0, 1, 2>();
  tiles.store<0>(c);
}

consteval TileFunctions<Pair> table_of() {
  constexpr int bfloat16 = 3;
  TileFunctions<Pair> table = {};
  table.group_rows = table.query_step = kStepRows;
  table.key_step = table.strip_keys = kStepKeys;
  table.key_granule = kProductDepth;
  table.forward_depth_step = kTileRows;
  table.column_step = kTileRows;
  table.pack_queries[bfloat16] = pack_side_by_side<Pair, BFloat16Bits, kStepRows, kTileRows>;
  table.pack_rows[bfloat16] = pack_keys;
  table.pack_values[bfloat16] = pack_value_tiles;
  table.load_columns = load_columns<float, kStepRows, kTileRows>;
  table.store_columns = store_columns<float, kStepRows, kTileRows>;
  table.add_tile[0] = add_tile;
  return table;
}

}  // namespace

constinit const TileFunctions<Pair> forward_tiles = table_of();
constinit const MultiplyTiles multiply = multiply_tiles;

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
