// The backward pass of precisions 3xbfloat16 and 6xbfloat16 on the matrix unit (split.hpp), block by block of 32 keys
// and 32 rows, as in backward_tiles.cpp. The products are S^T = K Q^T, dP^T = V dout^T, dV += P^T dout, dK += dS^T Q
// and, for up to 256 keys at once, dQ^T += K^T dS. P and dS have float's precision before they are split into parts. As
// in tiles of floats, Q contains the factor scale * log2(e), so accumulators of dk hold log2(e) dk.
#include "annulus/kernels/host/amx/split_backward_step.hpp"
#include "annulus/kernels/host/amx/tables.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

using Pair = BFloat16Pair;

/// The work of one call: one chunk of rows and the keys of a task.
template <int kParts>
class SplitChunk {
 public:
  SplitChunk(const QueryChunk<Pair>& q, const KeyChunk<Pair>& k, const Strips<Pair>& strips)
      : q_(q), k_(k), blocks_(q, k, strips.ds_rows, kParts), depth_(depth_tiles(q.head_dim)), products_(tiles_) {}

  void run();

 private:
  template <class Beside>
  void multiply(const Pair* a, const Pair* words, float* to, const Beside& beside);
  template <class Beside>
  void add(float* sums, const std::uint16_t* factors, const Pair* rows, const Beside& beside);
  template <bool kMasked>
  void advance(const Block* next, const Block& now, const Block* before);
  void add_to_keys(const Block& b);
  void add_keys_seen(const Block& b);
  void add_granules(int row, int low, int high, int first);
  void add_queries_seen(int row, int key, int first) const;
  Factors<kParts>& factors_of(int number) { return memory_.factors[number % 2]; }

  const QueryChunk<Pair>& q_;
  const KeyChunk<Pair>& k_;
  const Blocks blocks_;
  const int depth_;
  int number_ = 0;  // of the block whose P and dS are made
  TileRegisters tiles_;
  PartProducts<kParts, Shared::b> products_;
  SplitBlockMemory<kParts> memory_;
};

/// Sets `to` to the products of 32 keys (or values) and 32 rows.
template <int kParts>
template <class Beside>
inline ANNULUS_INLINE_MEMBER void SplitChunk<kParts>::multiply(const Pair* a, const Pair* words, float* to,
                                                               const Beside& beside) {
  const long part = long(depth_) * kTileRows * kStepRows, tile = long(depth_) * kParts * kTileWords;
  for (int h = 0; h < kHalves; ++h) {
    products_.enter({to + h * kTileWords, kHalves * kTileWords, 64}, true);
    for (int k = 0; k < depth_; ++k)
      products_.add({words + k * kTileRows * kStepRows + h * kTileRows, part, kGroupStride},
                    {a + k * kParts * kTileWords, kTileWords}, tile, beside);
  }
}

/// Computes sums += P^T dout (or dS^T Q); `factors` has P (or dS).
template <int kParts>
template <class Beside>
inline ANNULUS_INLINE_MEMBER void SplitChunk<kParts>::add(float* sums, const std::uint16_t* factors, const Pair* rows,
                                                          const Beside& beside) {
  const auto* const a = reinterpret_cast<const Pair*>(factors);
  constexpr long of_tile = kParts * kTileWords;  // words of a tile of keys or columns
  for (int d = 0; d < 2 * depth_; ++d) {
    products_.enter({sums + d * 2 * kTileWords, kTileWords, 64}, false);
    products_.add({rows + d * of_tile, kTileWords}, {a, kTileWords}, of_tile, beside);
  }
}

/// Adds block `before` to dV and dK, makes P and dS of `now` from S^T and dP^T in memory, and replaces S^T and dP^T by
/// those of `next`. P and dS are made while the products of dV, dK and of the first half of S^T run, because that half
/// is stored beside the products of the other half. When this function begins, register 1 may still hold dP^T of keys
/// 16 to 31. It is stored before more than half of P and dS are made, and the first half is that of keys 0 to 15.
template <int kParts>
template <bool kMasked>
void SplitChunk<kParts>::advance(const Block* next, const Block& now, const Block* before) {
  Factors<kParts>& to = factors_of(number_);
  int made = 0, done = 0;
  const int all = kPartProducts<kParts> * depth_ * ((before != nullptr ? 4 : 0) + (next != nullptr ? 1 : 0));
  const auto make = [&](int unit) ANNULUS_INLINE_MEMBER {
    weigh_pair_of_keys<kParts, kMasked>(now, memory_, to, unit / kTileVectors, unit % kTileVectors);
  };
  const auto beside = [&]() ANNULUS_INLINE_MEMBER {
    done += kUnits;
    while (made < kUnits && made * all < done) make(made++);
  };
  if (all == 0) products_.flush();  // stores dP^T of `now`, which registers still hold
  if (before != nullptr) {
    const Factors<kParts>& from = factors_of(number_ + 1);
    add(memory_.dv, from.p, before->added_dout, beside);
    add(memory_.dk, from.ds, before->added_queries, beside);
  }
  if (next != nullptr) multiply(next->keys, next->queries, memory_.scores, beside);
  while (made < kUnits) make(made++);
  if (next != nullptr) multiply(next->values, next->dout, memory_.dp, Alone{});
}

/// Adds block b, whose P and dS were made last, to dV and dK.
template <int kParts>
void SplitChunk<kParts>::add_to_keys(const Block& b) {
  if (!q_.finite && b.is_masked) return add_keys_seen(b);
  const Factors<kParts>& from = factors_of(number_ + 1);
  add(memory_.dv, from.p, b.added_dout, Alone{});
  add(memory_.dk, from.ds, b.added_queries, Alone{});
  products_.flush();
}

/// For chunks in which dout or Q is not finite: adds block b to dV and dK, without the keys that a row does not see,
/// because 0 times infinity is NaN.
template <int kParts>
void SplitChunk<kParts>::add_keys_seen(const Block& b) {
  const Factors<kParts>& from = factors_of(number_ + 1);
  for (int key = 0; key < kBlockKeys; ++key)
    for (int column = 0; column < 2 * depth_ * kTileRows; ++column) {
      const int tile = column / kTileRows, d = column % kTileRows,
                to = (tile * 2 + key / kTileRows) * kTileWords + key % kTileRows * kTileRows + d;
      const auto add = [&](float* sums, const std::uint16_t* factors, const Pair* rows) {
        const auto* const words = reinterpret_cast<const Pair*>(factors) + key / kTileRows * kParts * kTileWords +
                                  key % kTileRows * kTileRows;
        add_product_of_seen<kParts>(
            sums[to],
            [&](int row) {
              return NumberInParts{words + row / 2, row % 2, kTileWords};
            },
            [&](int row) {
              const Pair* const word = rows + tile * kParts * kTileWords + row / 2 * kTileRows + d;
              return NumberInParts{word, row % 2, kTileWords};
            },
            [&](int row) { return blocks_.sees(b.row + row, b.key + key); });
      };
      add(memory_.dv, from.p, b.added_dout);
      add(memory_.dk, from.ds, b.added_queries);
    }
}

/// Adds keys [low, high) to dQ^T of 32 rows, 32 keys at a time, the last ones first.
template <int kParts>
void SplitChunk<kParts>::add_granules(int row, int low, int high, int first) {
  constexpr long of_tile = kParts * kTileWords;
  float* to = q_.dq + row * 2 * depth_ * kTileRows;
  for (int d = 0; d < 2 * depth_; d += 2, to += 2 * kTileRows * kStepRows)
    for (int h = 0; h < kHalves; ++h) {
      products_.enter({to + h * kTileRows, kTileRows * kStepRows, kGroupStride}, false);
      for (int key = high - kBlockKeys; key >= low; key -= kBlockKeys)
        products_.add({blocks_.kept_ds(row, key, first) + h * kTileWords, kHalves * kTileWords},
                      {k_.key_rows + (key / kBlockKeys * 2 * depth_ + d) * of_tile, kTileWords}, of_tile, Alone{});
    }
}

/// For tasks in which K is not finite: adds 32 keys to dQ^T of 32 rows, without the keys that a row does not see,
/// because 0 times infinity is NaN.
template <int kParts>
void SplitChunk<kParts>::add_queries_seen(int row, int key, int first) const {
  const int columns = 2 * depth_ * kTileRows;
  const Pair* const ds = blocks_.kept_ds(row, key, first);
  for (int i = 0; i < kStepRows; ++i)
    for (int column = 0; column < columns; ++column) {
      const Pair* const words = k_.key_rows +
                                (key / kBlockKeys * 2 * depth_ + column / kTileRows) * kParts * kTileWords +
                                column % kTileRows * kTileRows;
      const Pair* const of_row = ds + i / kTileRows * kTileWords + i % kTileRows;
      add_product_of_seen<kParts>(
          q_.dq[row * columns + column * kStepRows + i],
          [&](int j) {
            return NumberInParts{words + j / 2, j % 2, kTileWords};
          },
          [&](int j) {
            return NumberInParts{of_row + j / 2 * kTileRows, j % 2, kHalves * kTileWords};
          },
          [&](int j) { return blocks_.sees(row + i, key + j); });
    }
}

template <int kParts>
void SplitChunk<kParts>::run() {
  const bool wants_keys = k_.dk != nullptr;
  for (int first = (k_.count - 1) / kKeptKeys * kKeptKeys; first >= 0; first -= kKeptKeys) {
    const int end = at_most(first + kKeptKeys, round_up(k_.count, kBlockKeys));
    int row = -kStepRows, key = first;
    if (!blocks_.next_block(row, key, end)) continue;
    Block blocks[3] = {{}, blocks_.block(row, key, first), {}};
    Block *before = &blocks[0], *now = &blocks[1], *next = &blocks[2];
    multiply(now->keys, now->queries, memory_.scores, Alone{});
    multiply(now->values, now->dout, memory_.dp, Alone{});
    products_.flush();
    if (wants_keys) blocks_.enter_keys(now->key, memory_.dk, memory_.dv);
    bool has_before = false;
    for (bool more = true; more; ++number_) {
      more = blocks_.next_block(row, key, end);
      if (more) *next = blocks_.block(row, key, first);
      const bool by_hand = has_before && !q_.finite && before->is_masked;
      if (by_hand) {
        products_.flush();
        add_keys_seen(*before);
      }
      const Block *const after = more ? next : nullptr, *const added = has_before && !by_hand ? before : nullptr;
      now->is_masked ? advance<true>(after, *now, added) : advance<false>(after, *now, added);
      if (has_before && before->key != now->key) {
        products_.flush();
        blocks_.leave_keys(before->key, memory_.dk, memory_.dv);
        blocks_.enter_keys(now->key, memory_.dk, memory_.dv);
      }
      Block* const free = before;
      before = now;
      now = next;
      next = free;
      has_before = wants_keys;
    }
    if (wants_keys) {
      products_.flush();
      add_to_keys(*before);
      blocks_.leave_keys(before->key, memory_.dk, memory_.dv);
    }
    if (q_.dq == nullptr) continue;
    blocks_.for_each_row(first, end, !k_.finite, [&](int row_, int low, int high) {
      if (!k_.finite && blocks_.is_masked(row_, low)) {
        products_.flush();
        add_queries_seen(row_, low, first);
      } else {
        add_granules(row_, low, high, first);
      }
    });
    products_.flush();
  }
}

template <int kParts>
void add_chunks(const QueryChunk<Pair>& q, const KeyChunk<Pair>& k, const Strips<Pair>& strips) {
  const DenormalsAreZero as_the_matrix_unit_has_it(true);
  SplitChunk<kParts>(q, k, strips).run();
}

template <class Storage, int kParts>
void pack_keys(const void* const* rows, std::int64_t count, int head_dim, float, Pair* to) {
  pack_first_operands<Storage, kParts>(rows, count, round_up(int(count), kBlockKeys), head_dim, to);
}

/// Packs K as first operand of dQ^T: [key / 32][column tile][part][16 columns][16 words of two keys].
template <class Storage, int kParts>
bool pack_key_columns_in_parts(const void* const* rows, int count, int head_dim, int, const RowFactors<float>&,
                               Pair* to) {
  Floats differences{};
  for (int first = 0; first < count; first += kProductDepth)
    for (int d = 0; d < 2 * depth_tiles(head_dim); ++d, to += kParts * kTileWords)
      pack_columns_in_parts<Storage, kParts>(rows + first, d * kTileRows, head_dim, differences, to);
  return is_zero(differences);
}

// Returns the factor by which rows are multiplied while they are packed. Q has one factor for all rows (step 0). For
// dout, which has a factor for each row, returns 1, because P already contains these factors (Block::factors).
ANNULUS_INLINE float factor_of(const RowFactors<float>& factors) { return factors.step == 0 ? *factors.of : 1; }

/// Packs Q (or dout) as second operand of S^T (or dP^T): [row / 32][part][word][32 rows].
template <class Storage, int kParts>
bool pack_words(const void* const* rows, int count, int head_dim, int, const RowFactors<float>& factors, Pair* to) {
  return pack_words_of_rows<Storage, kParts>(rows, count, head_dim, factor_of(factors), to);
}

/// Packs Q (or dout) as second operand of dK (or dV): [row / 32][column tile][part][16 words of two rows][16 columns].
template <class Storage, int kParts>
bool pack_rows_in_parts(const void* const* rows, int count, int head_dim, int, const RowFactors<float>& factors,
                        Pair* to) {
  const float factor = factor_of(factors);
  for (int first = 0; first < count; first += kProductDepth)
    for (int d = 0; d < 2 * depth_tiles(head_dim); ++d, to += kParts * kTileWords)
      pack_row_pairs<Storage, kParts>(rows + first, d * kTileRows, head_dim, factor, to);
  return true;  // pack_words() has checked the same numbers
}

template <class Storage, int kParts>
constexpr void set_packing(TileFunctions<Pair>& table, int storage) {
  table.pack_transposed[storage] = pack_keys<Storage, kParts>;
  table.pack_row_slabs[storage] = pack_words<Storage, kParts>;
  table.pack_slabs[storage] = pack_rows_in_parts<Storage, kParts>;
  table.pack_descending_slabs[storage] = pack_key_columns_in_parts<Storage, kParts>;
}

template <int kParts>
consteval TileFunctions<Pair> table_of() {
  constexpr int float32 = 1, float16 = 2;
  TileFunctions<Pair> table = {};
  table.parts = kParts;
  table.row_block = kTileRows;
  table.column_block = kProductDepth;
  table.key_granule = kProductDepth;
  table.depth_step = kTileRows;
  table.backward_row_step = kStepRows;
  table.backward_key_step = table.key_panel = kBlockKeys;
  table.strip_stride = kKeptKeys;
  set_packing<float, kParts>(table, float32);
  set_packing<HalfBits, kParts>(table, float16);
  table.load_rows = load_key_sums;
  table.store_rows = store_key_sums;
  table.load_query_sums = load_columns<float, kStepRows, kProductDepth>;
  table.store_query_sums = store_columns<float, kStepRows, kProductDepth>;
  table.add_chunks = add_chunks<kParts>;
  return table;
}

}  // namespace

constinit const TileFunctions<Pair> backward_of_two_parts = table_of<2>();
constinit const TileFunctions<Pair> backward_of_three_parts = table_of<3>();

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
