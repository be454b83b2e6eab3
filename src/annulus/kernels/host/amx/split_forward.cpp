// The forward pass of precisions 3xbfloat16 and 6xbfloat16 on the matrix unit (split.hpp). The tile's keys are taken in
// steps of 64 and rows in groups of 32, as in forward_tiles.cpp. Scores, weights and sums have float's precision. m is
// that of online_softmax.hpp, and l adds up the weights before they are split into parts, key after key.
//
//   queries  [row / 32][part][word][32 rows]            numbers times scale * log2(e), as in float tiles
//   keys     [key / 16][depth tile][part][16 keys][16 words]
//   values   [step][column tile][2 products][part][16 columns][16 words of two keys]
// The number of column tiles is even, because columns are padded to a multiple of 32.
#include "annulus/kernels/host/amx/forward_rows.hpp"
#include "annulus/kernels/host/amx/split_pack.hpp"
#include "annulus/kernels/host/amx/tables.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

using Pair = BFloat16Pair;

constexpr int kPartWords = kStepKeys * kStepRows / 2;  // words of one part of a step's weights

/// Memory that every step uses again, so that it stays in the first-level cache.
template <int kParts>
struct SplitMemory {
  /// [4 tiles of keys][2 halves][16 keys][16 rows]
  alignas(64) float scores[kStepKeys * kStepRows];
  /// Two buffers, for this step and for the one before: [2 products][2 halves][part][16 pairs of keys][16 rows]
  alignas(64) Pair weights[2][kParts * kPartWords];
};

/// Makes a step's weights, for two keys and half of the rows at a time, and adds them to l.
template <int kParts>
class Weights {
 public:
  static constexpr int kUnits = kStepKeys / 2 * kHalves;

  ANNULUS_INLINE_MEMBER Weights(const Step& step, const float* scores, Pair* to)
      : step_(step), scores_(scores), to_(to) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Floats m = load<Floats>(step.max + v * kLanes<float>);
      shift_[v] = m > broadcast(-kInfinity<float>) ? m : Floats{};  // m = -inf: no score in this step is above -inf
      sums_[v] = load<Floats>(step.sum + v * kLanes<float>);
      power_[v] = broadcast(-1.f);
    }
  }
  /// Makes the weights of the next two keys and half of the rows.
  ANNULUS_INLINE_MEMBER void make() {
    if (made_++ % kHalves == 0)
      make_half<0>(made_ / kHalves);
    else
      make_half<1>(made_ / kHalves - 1);
  }
  ANNULUS_INLINE_MEMBER int made() const { return made_; }
  /// True if a score is not below its row's m. The caller must then check m, and raise m if a score is above it.
  ANNULUS_INLINE_MEMBER bool need_care() const {
    bool any = false;
    for (int v = 0; v < kVectors; ++v) any |= any_above(power_[v], broadcast(-0x1p-100f));
    return any;
  }
  ANNULUS_INLINE_MEMBER void store_sums() const {
    for (int v = 0; v < kVectors; ++v) store(step_.sum + v * kLanes<float>, sums_[v]);
  }

 private:
  static constexpr int kVectors = kStepRows / kLanes<float>;

  template <int kHalf>
  ANNULUS_MEMBER_BESIDE void make_half(int u) {
#pragma GCC unroll 4
    for (int i = 0; i < kTileVectors; ++i) {
      const int v = kHalf * kTileVectors + i, at = i * kLanes<float>;
      const float* const scores = scores_ + (u / 8 * kHalves + kHalf) * kTileWords + u % 8 * 32 + at;
      Pair* const to = to_ + (u / 16 * kHalves + kHalf) * kParts * kTileWords + u % 16 * 16 + at;
      Floats low[kParts], high[kParts], power[2];
      const Floats first = exact_exp2(load<Floats>(scores), shift_[v], power[0]);
      const Floats second = exact_exp2(load<Floats>(scores + kTileRows), shift_[v], power[1]);
      power_[v] = larger(power[0], larger(power[1], power_[v]));
      sums_[v] = sums_[v] + first;
      sums_[v] = sums_[v] + second;
      split<kParts>(first, low);
      split<kParts>(second, high);
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part) store(to + part * kTileWords, side_by_side(low[part], high[part]));
    }
  }

  const Step& step_;
  const float* scores_;
  Pair* to_;
  Floats shift_[kVectors], sums_[kVectors], power_[kVectors];
  int made_ = 0;
};

/// The work of one call: one tile of keys and all rows.
template <int kParts>
class SplitWork {
 public:
  SplitWork(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile)
      : panels_(panels),
        tile_(tile),
        depth_(depth_tiles(panels.head_dim)),
        columns_(2 * depth_),
        rows_(panels, tile, columns_, 1),
        products_(tiles_) {}

  void run();
  void run_plainly();

 private:
  template <class Beside>
  void add_scores(const Step& step, const Beside& beside);
  template <class Beside>
  void add_values(const Step& step, const Pair* weights, const Beside& beside);
  bool advance(const Step* next, const Step& now, const Step* before);
  void weigh_again(const Step& now);
  void weigh_with_care(const Step& now);
  void add_seen(const Step& step);
  Pair* weights_of(int number) { return memory_.weights[number % 2]; }

  const QueryPanels<Pair>& panels_;
  const KeyTile<Pair>& tile_;
  const int depth_, columns_;
  const StepRows rows_;
  int number_ = 0;  // of the step whose weights are made
  TileRegisters tiles_;
  PartProducts<kParts, Shared::a> products_;
  SplitMemory<kParts> memory_;
};

/// Computes S^T = K Q^T.
template <int kParts>
template <class Beside>
inline ANNULUS_INLINE_MEMBER void SplitWork<kParts>::add_scores(const Step& step, const Beside& beside) {
  const Pair* keys = step.keys;
  for (int t = 0; t < 4; ++t) {
    products_.enter({memory_.scores + t * kHalves * kTileWords, kTileWords, 64}, true);
    for (int k = 0; k < depth_; ++k, keys += kParts * kTileWords)
      products_.add({keys, kTileWords},
                    {step.queries + k * kTileRows * kStepRows, depth_ * kTileRows * kStepRows, kGroupStride}, kTileRows,
                    beside);
  }
}

/// Computes O^T += V^T P^T.
template <int kParts>
template <class Beside>
inline ANNULUS_INLINE_MEMBER void SplitWork<kParts>::add_values(const Step& step, const Pair* weights,
                                                                const Beside& beside) {
  constexpr long of_tile = kParts * kTileWords;
  const Pair* values = step.values;
  for (int d = 0; d < columns_; ++d) {
    products_.enter({step.acc + d * kTileRows * kStepRows, kTileRows, kGroupStride}, false);
    for (int product = 0; product < 2; ++product, values += of_tile)
      products_.add({values, kTileWords}, {weights + product * kHalves * of_tile, kTileWords}, of_tile, beside);
  }
}

/// Adds step `before` to O^T, makes the weights of `now` from the scores in memory, and replaces these scores by those
/// of `next`. Weights are made while products run, so that the matrix unit and vectors work at the same time. The new
/// scores of a tile of keys are stored when the products of the next tile begin. At least a quarter of all weights is
/// made beside the products of each tile, in the order of the tiles. So the weights of a tile are made before its old
/// scores are replaced. The last tile is stored beside the next products (or by flush()). Returns false if the weights
/// must be made again, by weigh_again().
template <int kParts>
bool SplitWork<kParts>::advance(const Step* next, const Step& now, const Step* before) {
  Weights<kParts> weights(now, memory_.scores, weights_of(number_));
  const int products = kPartProducts<kParts> * 4 * depth_;  // of values, and as many of scores
  const int all = (before != nullptr ? products : 0) + (next != nullptr ? products : 0);
  int done = 0;
  const auto beside = [&]() ANNULUS_INLINE_MEMBER {
    done += Weights<kParts>::kUnits;
    while (weights.made() * all < done) weights.make();
  };
  if (before != nullptr) add_values(*before, weights_of(number_ + 1), beside);
  if (next != nullptr) add_scores(*next, beside);
  while (weights.made() < Weights<kParts>::kUnits) weights.make();
  if (weights.need_care()) return false;
  weights.store_sums();
  return true;
}

/// Computes the weights from the scores in memory, for any scores. Scores of +inf all get the same weight.
template <int kParts>
void SplitWork<kParts>::weigh_with_care(const Step& now) {
  if (now.is_masked) rows_.hide_unseen(now, memory_.scores);
  rows_.raise_maxima(now, memory_.scores);
  const Floats largest = broadcast(kLargest<float>);
  for (int i = 0; i < kStepKeys * kStepRows; i += kLanes<float>) {
    const Floats x = load<Floats>(memory_.scores + i);
    store(memory_.scores + i, x > largest ? largest : x);
  }
  Weights<kParts> weights(now, memory_.scores, weights_of(number_));
  while (weights.made() < Weights<kParts>::kUnits) weights.make();
  weights.store_sums();
}

/// Computes the weights of `now` again. Afterwards memory_ has the same scores as before, which are those of the next
/// step.
template <int kParts>
void SplitWork<kParts>::weigh_again(const Step& now) {
  alignas(64) float next[kStepKeys * kStepRows];
  products_.flush();
  __builtin_memcpy(next, memory_.scores, sizeof next);
  add_scores(now, Alone{});
  products_.flush();
  weigh_with_care(now);
  __builtin_memcpy(memory_.scores, next, sizeof next);
}

template <int kParts>
void SplitWork<kParts>::run() {
  Walk walk(panels_, tile_, columns_, kParts);
  if (walk.is_done()) return;
  Step steps[3] = {{}, walk.step(), {}};
  Step *before = &steps[0], *now = &steps[1], *next = &steps[2];
  bool has_before = false;
  add_scores(*now, Alone{});
  products_.flush();
  for (bool more = true; more; ++number_) {
    walk.go_on();
    more = !walk.is_done();
    if (more) *next = walk.step();
    const bool has_empty = rows_.has_empty_rows(*now);
    if (now->is_masked || has_empty) products_.flush();
    if (now->is_masked) rows_.hide_unseen(*now, memory_.scores);
    if (has_empty) rows_.raise_maxima(*now, memory_.scores, /*only_empty=*/true);
    if (!advance(more ? next : nullptr, *now, has_before ? before : nullptr)) weigh_again(*now);
    Step* const free = before;
    before = now;
    now = next;
    next = free;
    has_before = true;
  }
  add_values(*before, weights_of(number_ + 1), Alone{});
  products_.flush();
}

/// For tiles with infinite or NaN values: adds a step's values to O^T number by number, without the keys that a row
/// does not see, because their weight 0 times infinity is NaN.
template <int kParts>
void SplitWork<kParts>::add_seen(const Step& step) {
  for (int i = 0; i < kStepRows; ++i) {
    const auto [begin, end] = rows_.seen_by(step, i);
    for (int column = 0; column < columns_ * kTileRows; ++column) {
      float& sum = step.acc[column * kStepRows + i];
      for (int product = 0; product < 2; ++product) {
        const Pair* const values =
            step.values + (column / kTileRows * 2 + product) * kParts * kTileWords + column % kTileRows * kTileRows;
        const Pair* const weights =
            weights_of(number_) + (product * kHalves + i / kTileRows) * kParts * kTileWords + i % kTileRows;
        add_product_of_seen<kParts>(
            sum,
            [&](int key) {
              return NumberInParts{values + key / 2, key % 2, kTileWords};
            },
            [&](int key) {
              return NumberInParts{weights + key / 2 * kTileRows, key % 2, kTileWords};
            },
            [&](int key) {
              const int number = product * kProductDepth + key;
              return begin <= number && number < end;
            });
      }
    }
  }
}

/// Replaces run() for tiles whose values are not all finite.
template <int kParts>
void SplitWork<kParts>::run_plainly() {
  for (Walk walk(panels_, tile_, columns_, kParts); !walk.is_done(); walk.go_on()) {
    add_scores(walk.step(), Alone{});
    products_.flush();
    weigh_with_care(walk.step());
    add_seen(walk.step());
  }
}

template <int kParts>
void add_tile(const QueryPanels<Pair>& panels, const KeyTile<Pair>& tile, float*) {
  const DenormalsAreZero as_the_matrix_unit_has_it(true);
  SplitWork<kParts> work(panels, tile);
  tile.finite ? work.run() : work.run_plainly();
}

template <class Storage, int kParts>
void pack_queries(const void* const* rows, std::int64_t count, int head_dim, float factor, Pair* to) {
  pack_words_of_rows<Storage, kParts>(rows, count, head_dim, factor, to);
}

/// Packs rows as first operands: [row / 16][depth tile][part][16 rows][16 words], zero up to a multiple of kStepKeys
/// rows.
template <class Storage, int kParts>
void pack_keys_in_parts(const void* const* rows, int count, int head_dim, Pair* to) {
  pack_first_operands<Storage, kParts>(rows, count, round_up(count, kStepKeys), head_dim, to);
}

template <class Storage, int kParts>
bool pack_values_in_parts(const void* const* rows, int count, int head_dim, int /*capacity*/, Pair* values) {
  static constexpr Storage none[kMaxMatrixDim] = {};
  Floats differences{};
  const int columns = 2 * depth_tiles(head_dim);
  for (int first = 0; first < count; first += kStepKeys) {
    const void* some[kStepKeys];
    for (int i = 0; i < kStepKeys; ++i) some[i] = first + i < count ? rows[first + i] : none;
    for (int d = 0; d < columns; ++d)
      for (int product = 0; product < 2; ++product, values += kParts * kTileWords)
        pack_columns_in_parts<Storage, kParts>(some + product * kProductDepth, d * kTileRows, head_dim, differences,
                                               values);
  }
  return is_zero(differences);
}

template <int kParts>
consteval TileFunctions<Pair> table_of() {
  constexpr int float32 = 1, float16 = 2;
  TileFunctions<Pair> table = {};
  table.parts = kParts;
  table.group_rows = table.query_step = kStepRows;
  table.key_step = table.strip_keys = kStepKeys;
  table.key_granule = kProductDepth;
  table.forward_depth_step = kTileRows;
  table.column_step = kProductDepth;
  table.pack_queries[float32] = pack_queries<float, kParts>;
  table.pack_queries[float16] = pack_queries<HalfBits, kParts>;
  table.pack_rows[float32] = pack_keys_in_parts<float, kParts>;
  table.pack_rows[float16] = pack_keys_in_parts<HalfBits, kParts>;
  table.pack_values[float32] = pack_values_in_parts<float, kParts>;
  table.pack_values[float16] = pack_values_in_parts<HalfBits, kParts>;
  table.load_columns = load_columns<float, kStepRows, kProductDepth>;
  table.store_columns = store_columns<float, kStepRows, kProductDepth>;
  table.add_tile[0] = add_tile<kParts>;
  return table;
}

}  // namespace

constinit const TileFunctions<Pair> forward_of_two_parts = table_of<2>();
constinit const TileFunctions<Pair> forward_of_three_parts = table_of<3>();

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
