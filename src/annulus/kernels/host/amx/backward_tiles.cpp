// The backward pass of the instruction set amx, for products of bfloat16 (see TileFunctions): one chunk of rows and the
// keys of a task. The code takes 32 keys at a time, and with these keys all blocks of 32 rows, one after another.
#include "annulus/kernels/host/amx/backward_step.hpp"
#include "annulus/kernels/host/amx/tables.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

using Pair = BFloat16Pair;

/// The work of one call: one chunk of rows and the keys of a task.
class ChunkWork {
 public:
  ANNULUS_INLINE_MEMBER ChunkWork(const QueryChunk<Pair>& q, const KeyChunk<Pair>& k, const Strips<Pair>& strips)
      : q_(q), k_(k), blocks_(q, k, strips.ds_rows), depth_(depth_tiles(q.head_dim)) {}

  template <int kDepth>
  void run();

 private:
  void make_first(const Block& b);
  void add_keys_seen(const Block& b);
  void add_to_queries(int first, int end);
  void add_granules(int row, int low, int high, int first);
  void add_queries_seen(int row, int key, int first) const;
  void add_to_keys(const Block& b);
  template <int kDepth>
  void advance(const Block& next, const Block& now, const Block* before);

  const QueryChunk<Pair>& q_;
  const KeyChunk<Pair>& k_;
  const Blocks blocks_;
  const int depth_;
  TileRegisters tiles_;
  BlockMemory memory_;
};

/// Computes S^T and dP^T of the first block, without other work beside the products.
void ChunkWork::make_first(const Block& b) {
  const auto make = [&](const Pair* a, const Pair* words, float* to) {
    for (int i = 0; i < 4; ++i) {
      tiles_.zero<0>();
      for (int k = 0; k < depth_; ++k) {
        tiles_.load<4>(a + (i / 2 * depth_ + k) * kTileWords);
        tiles_.load<6>(words + k * kTileRows * kStepRows + i % 2 * kTileRows, kGroupStride);
        tiles_.multiply<0, 4, 6>();
      }
      tiles_.store<0>(to + i * kTileWords);
    }
  };
  make(b.keys, b.queries, memory_.scores);
  make(b.values, b.dout, memory_.dp);
  times<4>([&]<int i>() ANNULUS_INLINE_MEMBER { tiles_.template load<i>(memory_.dp + i * kTileWords); });
}

float half_of(Pair word, int half) { return bits_as<float>(half == 0 ? word.bits << 16 : word.bits & 0xffff0000u); }
float wide(std::uint16_t bits) { return bits_as<float>(std::uint32_t(bits) << 16); }

/// For chunks in which dout or Q is not finite: adds block b to dV and dK, without the keys that a row does not see,
/// because 0 times infinity is NaN.
void ChunkWork::add_keys_seen(const Block& b) {
  for (int key = 0; key < kBlockKeys; ++key) {
    const auto seen = [&](int row) { return b.begin[row] <= b.key + key && b.key + key < b.end[row]; };
    for (int column = 0; column < 2 * depth_ * kTileRows; ++column) {
      const int tile = column / kTileRows, d = column % kTileRows,
                to = (tile * 2 + key / kTileRows) * kTileWords + key % kTileRows * kTileRows + d;
      const auto add = [&](float* sums, const std::uint16_t* a, const Pair* words) {
        sums[to] += product_of_seen(
            [&](int row) { return wide(a[key * kStepRows + row]); },
            [&](int row) { return half_of(words[tile * kTileWords + row / 2 * 16 + d], row % 2); }, seen);
      };
      add(memory_.dv, memory_.p, b.added_dout);
      add(memory_.dk, memory_.ds, b.added_queries);
    }
  }
}

/// For tasks in which K is not finite: adds 32 keys to dQ^T of 32 rows, without the keys that a row does not see,
/// because 0 times infinity is NaN.
void ChunkWork::add_queries_seen(int row, int key, int first) const {
  const int columns = 2 * depth_ * kTileRows;
  const Pair *const ds = blocks_.kept_ds(row, key, first), *const keys = k_.key_rows + key / 2 * columns;
  for (int i = 0; i < kStepRows; ++i) {
    const auto seen = [&](int j) { return blocks_.sees(row + i, key + j); };
    const int index = index_of_row(i);
    const Pair* const of_row = ds + index / kTileRows * kTileWords + index % kTileRows;
    for (int column = 0; column < columns; ++column) {
      const Pair* const words = keys + column / kTileRows * kTileWords + column % kTileRows * kTileRows;
      q_.dq[row * columns + column * kStepRows + index] +=
          product_of_seen([&](int j) { return half_of(words[j / 2], j % 2); },
                          [&](int j) { return half_of(of_row[j / 2 * kTileRows], j % 2); }, seen);
    }
  }
}

/// Adds keys [low, high) to dQ^T of 32 rows, 32 keys at a time, the last ones first. The sums stay in registers
/// meanwhile. `first` is the first key whose dS is kept.
void ChunkWork::add_granules(int row, int low, int high, int first) {
  const int columns = 2 * depth_;
  float* to = q_.dq + row * columns * kTileRows;
  for (int d = 0; d < columns; d += 2, to += 2 * kTileRows * kStepRows) {
    times<4>([&]<int i>() ANNULUS_INLINE_MEMBER {
      tiles_.template load<i>(to + i / 2 * kTileRows * kStepRows + i % 2 * kTileRows, kGroupStride);
    });
    for (int key = high - kBlockKeys; key >= low; key -= kBlockKeys) {
      const Pair *const a = k_.key_rows + (key / kBlockKeys * columns + d) * kTileWords, *const b = blocks_.kept_ds(
                                                                                             row, key, first);
      tiles_.load<4>(a);
      tiles_.stream<6>(b);
      tiles_.multiply<0, 4, 6>();
      tiles_.stream<7>(b + kTileWords);
      tiles_.multiply<1, 4, 7>();
      tiles_.load<5>(a + kTileWords);
      tiles_.multiply<2, 5, 6>();
      tiles_.multiply<3, 5, 7>();
    }
    times<4>([&]<int i>() ANNULUS_INLINE_MEMBER {
      tiles_.template store<i>(to + i / 2 * kTileRows * kStepRows + i % 2 * kTileRows, kGroupStride);
    });
  }
}

/// Adds the keys [first, end), whose dS is kept (Blocks::kept_ds()), to dQ^T of all rows of the chunk.
void ChunkWork::add_to_queries(int first, int end) {
  blocks_.for_each_row(first, end, !k_.finite, [&](int row, int low, int high) {
    if (!k_.finite && blocks_.is_masked(row, low))
      add_queries_seen(row, low, first);
    else
      add_granules(row, low, high, first);
  });
}

/// Adds block b, whose P and dS are in memory, to dV and dK, without other work beside the products.
void ChunkWork::add_to_keys(const Block& b) {
  if (!q_.finite && b.is_masked) return add_keys_seen(b);
  for (int tile = 0; tile < 2 * depth_ * 2; ++tile) {
    const auto add = [&](float* sums, const std::uint16_t* a, const Pair* words) {
      tiles_.load<0>(sums + tile * kTileWords);
      tiles_.load<4>(a + tile % 2 * 2 * kTileWords);
      tiles_.load<2>(words + tile / 2 * kTileWords);
      tiles_.multiply<0, 4, 2>();
      tiles_.store<0>(sums + tile * kTileWords);
    };
    add(memory_.dv, memory_.p, b.added_dout);
    add(memory_.dk, memory_.ds, b.added_queries);
  }
}

template <int kDepth>
void ChunkWork::advance(const Block& next, const Block& now, const Block* before) {
  const bool by_hand = before != nullptr && !q_.finite && before->is_masked;
  if (by_hand) add_keys_seen(*before);
  if (before == nullptr || by_hand)
    return (now.is_masked ? advance_block<kDepth, true, false>
                          : advance_block<kDepth, false, false>)(tiles_, memory_, next, now, now, q_.score_factor);
  (now.is_masked ? advance_block<kDepth, true, true> : advance_block<kDepth, false, true>)(tiles_, memory_, next, now,
                                                                                           *before, q_.score_factor);
}

template <int kDepth>
void ChunkWork::run() {
  const bool wants_keys = k_.dk != nullptr;
  for (int first = (k_.count - 1) / kKeptKeys * kKeptKeys; first >= 0; first -= kKeptKeys) {
    const int end = at_most(first + kKeptKeys, round_up(k_.count, kBlockKeys));
    int row = -kStepRows, key = first;
    if (!blocks_.next_block(row, key, end)) continue;
    Block blocks[3] = {{}, blocks_.block(row, key, first), {}};
    Block *before = &blocks[0], *now = &blocks[1], *next = &blocks[2];
    make_first(*now);
    if (wants_keys) blocks_.enter_keys(now->key, memory_.dk, memory_.dv);
    bool has_before = false;
    for (bool more = true; more;) {
      more = blocks_.next_block(row, key, end);
      *next = more ? blocks_.block(row, key, first) : *now;
      advance<kDepth>(*next, *now, has_before ? before : nullptr);
      if (has_before && before->key != now->key) {
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
      add_to_keys(*before);
      blocks_.leave_keys(before->key, memory_.dk, memory_.dv);
    }
    if (q_.dq != nullptr) add_to_queries(first, end);
  }
}

template <int kDepth>
void add_chunks_of(const QueryChunk<Pair>& q, const KeyChunk<Pair>& k, const Strips<Pair>& strips) {
  ChunkWork(q, k, strips).run<kDepth>();
}

using AddChunks = void (*)(const QueryChunk<Pair>&, const KeyChunk<Pair>&, const Strips<Pair>&);
constexpr AddChunks kAddChunks[] = {add_chunks_of<1>, add_chunks_of<2>, add_chunks_of<3>, add_chunks_of<4>,
                                    add_chunks_of<5>, add_chunks_of<6>, add_chunks_of<7>, add_chunks_of<8>};
static_assert(sizeof kAddChunks / sizeof kAddChunks[0] == kMaxMatrixDim / kProductDepth);

void add_chunks(const QueryChunk<Pair>& q, const KeyChunk<Pair>& k, const Strips<Pair>& strips) {
  const DenormalsAreZero as_the_matrix_unit_has_it(true);
  kAddChunks[depth_tiles(q.head_dim) - 1](q, k, strips);
}

consteval TileFunctions<Pair> table_of() {
  constexpr int bfloat16 = 3;
  TileFunctions<Pair> table = {};
  table.row_block = kTileRows;
  table.column_block = kProductDepth;
  table.key_granule = kProductDepth;
  table.depth_step = kTileRows;
  table.backward_row_step = kStepRows;
  table.backward_key_step = table.key_panel = kBlockKeys;
  table.strip_stride = kKeptKeys;
  table.pack_transposed[bfloat16] = pack_key_panels;
  table.pack_row_slabs[bfloat16] = pack_query_words;
  table.pack_slabs[bfloat16] = pack_query_rows;
  table.pack_descending_slabs[bfloat16] = pack_key_columns;
  table.load_rows = load_key_sums;
  table.store_rows = store_key_sums;
  table.load_query_sums = load_query_sums;
  table.store_query_sums = store_query_sums;
  table.add_chunks = add_chunks;
  return table;
}

}  // namespace

constinit const TileFunctions<Pair> backward_tiles = table_of();

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
