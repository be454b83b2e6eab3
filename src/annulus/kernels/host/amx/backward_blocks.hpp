// Walks over the blocks of 32 rows and 32 keys of the backward pass on the matrix unit. Products of bfloat16
// (backward_tiles.cpp) and of numbers in parts (split.hpp, split_backward.cpp) use this.
#pragma once

#include "annulus/kernels/host/amx/backward_pack.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// kBlockKeys: keys of a block. kKeptKeys: keys for which dS is kept until dS is multiplied by K and added to dQ.
constexpr int kBlockKeys = 32;
constexpr int kKeptKeys = 256;
/// Words of one part (split.hpp) of a block's dS. A word has the dS of two keys for one row.
constexpr int kBlockWords = kBlockKeys * kStepRows / 2;

/// Addresses for 32 keys and 32 rows. If numbers do not have several parts (split.hpp), the index `part` is always 0.
struct Block {
  const BFloat16Pair *keys, *values;               // [2 tiles of keys][depth tile][part][16 keys][16 words]
  const BFloat16Pair *queries, *dout;              // [part][word][32 rows]
  const BFloat16Pair *added_queries, *added_dout;  // [column tile][part][16 words of two rows][16 columns]
  BFloat16Pair* kept_ds;  // [part][2 halves of rows][16 words of two keys][16 rows]; one part: as in index_of_row()
  const float *shift, *delta, *factors;  // [32 rows]
  const int *begin, *end;                // [32 rows] a row sees the task's keys begin ... end - 1
  int key, row;                          // numbers of the first key in the task and of the first row in the chunk
  bool is_masked;                        // some row does not see all 32 keys
};

/// The blocks of one chunk of rows and the keys of a task.
class Blocks {
 public:
  /// `kept`: memory for dS of kKeptKeys keys and all rows.
  ANNULUS_INLINE_MEMBER Blocks(const QueryChunk<BFloat16Pair>& q, const KeyChunk<BFloat16Pair>& k, BFloat16Pair* kept,
                               int parts = 1)
      : q_(q), k_(k), kept_(kept), parts_(parts) {}

  /// Returns where dS of a block of rows and keys is kept; `first` is the first key whose dS is kept.
  BFloat16Pair* kept_ds(int row, int key, int first) const {
    return kept_ + (row / kStepRows * (kKeptKeys / kBlockKeys) + (key - first) / kBlockKeys) *
                       std::int64_t(parts_ * kBlockWords);
  }
  Block block(int row, int key, int first) const {
    const std::int64_t words = depth_tiles(q_.head_dim) * kTileRows * parts_, keys = key * words, rows = row * words;
    return {k_.keys + keys,
            k_.values + keys,
            q_.queries + rows,
            q_.dout + rows,
            q_.added_queries + rows,
            q_.added_dout + rows,
            kept_ds(row, key, first),
            q_.shift + row,
            q_.delta + row,
            q_.factors + row,
            q_.begin + row,
            q_.end + row,
            key,
            row,
            is_masked(row, key)};
  }

  /// Returns false only if no row of the block that begins with row `row` sees any of the 32 keys from number `key` on.
  /// May return true for such a block if the rows' ranges of keys have gaps between them.
  bool meet(int row, int key) const {
    return q_.begin[row] < key + kBlockKeys && q_.end[row + kStepRows - 1] > key &&
           q_.begin[row] < q_.end[row + kStepRows - 1];
  }
  bool is_masked(int row, int key) const {
    return q_.begin[row + kStepRows - 1] > key || q_.end[row] < key + kBlockKeys;
  }
  /// True if row number i sees key number j.
  bool sees(int i, int j) const { return q_.begin[i] <= j && j < q_.end[i]; }

  /// Moves `row` and `key` to the next block, among the keys below `end`, for which meet() is true. Returns false if
  /// there is none.
  bool next_block(int& row, int& key, int end) const {
    for (; key < end; key += kBlockKeys, row = -kStepRows) {
      for (row += kStepRows; row < q_.rows; row += kStepRows)
        if (meet(row, key)) return true;
    }
    return false;
  }

  /// dS is kept for the keys [first, end). Calls add(row, low, high) for each block of rows that sees some of these
  /// keys. All keys that the rows see lie in [low, high). If `cut`, add() gets 32 of these keys at a time, the last
  /// ones first.
  template <class Add>
  void for_each_row(int first, int end, bool cut, const Add& add) const {
    for (int row = 0; row < q_.rows; row += kStepRows) {
      int low = end, high = first;
      for (int key = first; key < end; key += kBlockKeys) {
        if (!meet(row, key)) continue;
        low = at_most(low, key);
        high = key + kBlockKeys;
      }
      if (!cut) {
        if (low < high) add(row, low, high);
        continue;
      }
      for (int key = high - kBlockKeys; key >= low; key -= kBlockKeys) add(row, key, key + kBlockKeys);
    }
  }

  /// enter_keys() starts a chunk's sums of dk and dv for 32 keys, `own_dk` and `own_dv`; leave_keys() ends them.
  /// Without by_granules a chunk's terms are added up from zero, and their sum is then added to the keys' sums, because
  /// this keeps the digits of small terms. With by_granules the chunk's terms are added to the keys' sums one granule
  /// after another, so that bits do not depend on where chunks end.
  ///   own_dk, own_dv  [column tile][2 tiles of keys][16 keys][16 columns]
  void enter_keys(int key, float* own_dk, float* own_dv) const {
    for_each_sum(key, own_dk, own_dv,
                 [&](const float* sum, float* own) { store(own, q_.by_granules ? load<Floats>(sum) : Floats{}); });
  }
  void leave_keys(int key, float* own_dk, float* own_dv) const {
    for_each_sum(key, own_dk, own_dv, [&](float* sum, const float* own) {
      store(sum, q_.by_granules ? load<Floats>(own) : load<Floats>(sum) + load<Floats>(own));
    });
  }

 private:
  /// Calls each(sum of all chunks, sum of this chunk) for every vector of dk and of dv of 32 keys.
  template <class Each>
  void for_each_sum(int key, float* own_dk, float* own_dv, const Each& each) const {
    const int columns = 2 * depth_tiles(q_.head_dim);
    for (int tile = 0; tile < columns * 2; ++tile) {
      const std::int64_t to = (std::int64_t(key / kTileRows + tile % 2) * columns + tile / 2) * kTileWords;
      for (int i = 0; i < kTileWords; i += kLanes<float>) {
        each(k_.dk + to + i, own_dk + tile * kTileWords + i);
        each(k_.dv + to + i, own_dv + tile * kTileWords + i);
      }
    }
  }

  const QueryChunk<BFloat16Pair>& q_;
  const KeyChunk<BFloat16Pair>& k_;
  BFloat16Pair* const kept_;
  const int parts_;
};

/// Returns the sum of those of 32 terms a(k) * b(k) for which seen(k) is true. Two chains of multiply-adds add the
/// terms up, as the matrix unit does (tile_registers.hpp), so the sum has the same bits.
template <class A, class B, class Seen>
float product_of_seen(const A& a, const B& b, const Seen& seen) {
  float chains[2] = {};
  for (int k = 0; k < kProductDepth; ++k)
    if (seen(k)) chains[k % 2] = __builtin_fmaf(a(k), b(k), chains[k % 2]);
  return chains[0] + chains[1];
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
