// The forward pass of the instruction set amx, for products of bfloat16 (see TileFunctions). The tile's keys are taken
// in steps of 64, and rows in groups of 32. This file is compiled for the matrix unit, and again for each vector set
// that can replace the unit (instruction_sets.cmake). All versions give the same bits, because products have the same
// bits (tile_registers.hpp), and the other operations are the same, in the same order.
//
// m, l and accumulators are those of online_softmax.hpp, with two exceptions: a score may be above m, by less than 1,
// and l is a sum of rounded weights that products of the matrix unit add up.
#include "annulus/kernels/host/amx/forward_rows.hpp"
#include "annulus/kernels/host/amx/tables.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

using Pair = BFloat16Pair;

/// The work of one call: one tile of keys and all rows.
class TileWork {
 public:
  ANNULUS_INLINE_MEMBER TileWork(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile)
      : panels_(panels),
        tile_(tile),
        depth_(depth_tiles(panels.head_dim)),
        columns_(column_tiles(panels.head_dim)),
        rows_(panels, tile, columns_, panels.score_factor) {}

  template <int kColumnTiles>
  void run();
  void run_plainly();

 private:
  float factor() const { return panels_.score_factor; }
  void weigh_again(const Step& now);
  void add_seen(const Step& step) const;

  const QueryPanels<Pair>& panels_;
  const KeyTile<Pair>& tile_;
  const int depth_, columns_;
  const StepRows rows_;
  TileRegisters tiles_;
  StepMemory memory_;
};

/// Computes the weights of step `now` again, in a slower way that is right for any scores. Afterwards memory_ has the
/// same scores as before, which are those of the next step.
void TileWork::weigh_again(const Step& now) {
  alignas(64) float next[kStepKeys * kStepRows];
  __builtin_memcpy(next, memory_.scores, sizeof next);
  add_scores_plainly(tiles_, now, depth_, memory_.scores);
  if (now.is_masked) rows_.hide_unseen(now, memory_.scores);
  rows_.raise_maxima(now, memory_.scores);
  weigh_with_care(memory_, now.max, factor());
  __builtin_memcpy(memory_.scores, next, sizeof next);
}

template <int kColumnTiles>
void TileWork::run() {
  alignas(64) float nowhere[2 * kTileWords];
  const LateStore none{nowhere + kTileWords, 64};
  constexpr bool two = kTwoLate<kDepthOf<kColumnTiles>>;
  Walk walk(panels_, tile_, columns_);
  if (walk.is_done()) return;
  Step steps[3] = {walk.step(), walk.step(), {}};
  Step *before = &steps[0], *now = &steps[1], *next = &steps[2];
  // The first call of advance() adds values of the first step with weight 0; the last one computes unused scores.
  __builtin_memset(memory_.weights, 0, sizeof memory_.weights);
  add_scores_plainly(tiles_, *now, depth_, memory_.scores);
  LateStore late = none;
  for (bool more = true; more;) {
    walk.go_on();
    more = !walk.is_done();
    *next = more ? walk.step() : *now;
    const bool has_empty = rows_.has_empty_rows(*now);
    if (now->is_masked || has_empty) {
      flush(tiles_, two, late);
      late = none;
      if (now->is_masked) rows_.hide_unseen(*now, memory_.scores);
      if (has_empty) rows_.raise_maxima(*now, memory_.scores, /*only_empty=*/true);
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

/// For tiles with infinite or NaN values: adds a step's values to O^T, without the keys that a row does not see,
/// because their weight 0 times infinity is NaN. The chains of multiply-adds are those of the matrix unit
/// (tile_registers.hpp).
void TileWork::add_seen(const Step& step) const {
  const auto half_of = [](Pair word, int half) {
    return bits_as<float>(half == 0 ? word.bits << 16 : word.bits & 0xffff0000u);
  };
  for (int i = 0; i < kStepRows; ++i) {
    const auto [begin, end] = rows_.seen_by(step, i);
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

/// Replaces run() for tiles whose values are not all finite. Products and vector work do not run at the same time here.
void TileWork::run_plainly() {
  for (Walk walk(panels_, tile_, columns_); !walk.is_done(); walk.go_on()) {
    const Step step = walk.step();
    add_scores_plainly(tiles_, step, depth_, memory_.scores);
    if (step.is_masked) rows_.hide_unseen(step, memory_.scores);
    rows_.raise_maxima(step, memory_.scores);
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

/// Computes C += A B, for tests.
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
  table.pack_rows[bfloat16] = pack_keys<kStepKeys>;
  table.pack_values[bfloat16] = pack_value_tiles;
  table.load_columns = load_columns<float, kStepRows, kTileRows>;
  table.store_columns = store_columns<float, kStepRows, kTileRows>;
  table.add_tile[0] = add_tile;
  return table;
}

}  // namespace

constinit const TileFunctions<Pair> forward_tiles = table_of();
constinit const MatrixTiles tiles = {{&forward_tiles, &forward_of_two_parts, &forward_of_three_parts},
                                     {&backward_tiles, &backward_of_two_parts, &backward_of_three_parts},
                                     multiply_tiles};

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
