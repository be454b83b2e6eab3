// Computes gradients in one instruction set. For each tile of kTileKeys keys, these steps follow one another:
//   P and dS for groups of MR rows    dV and dK for blocks of MR keys    dQ for groups of MR rows    (MR: kRowBlock)
// Meanwhile P and dS of the tile, for all rows of the chunk, stay in the caches.
#include "annulus/kernels/host/backward_tiles.hpp"

#include "annulus/kernels/host/weight_panels.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {
namespace {

/// Returns where a row of Strips::ds_rows begins if words are pairs. The row has 16 bits for each key.
ANNULUS_INLINE std::uint16_t* halves_of_row(const Strips<BFloat16Pair>& strips, int row) {
  void* const first = strips.ds_rows + std::int64_t(row) * kStripStride<BFloat16Pair> / 2;
  return static_cast<std::uint16_t*>(first);
}

/// Computes P (if words are numbers: E) and dS of MR rows for NV vectors of keys. The first of these keys is number
/// `from` of the tile.
template <class T, int NV, bool kMasked, class Rule>
ANNULUS_INLINE void fill_panel(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips, int row, int tile,
                               int from, Rule rule) {
  constexpr int nr = kKeyBlock<T>;
  const int depth = padded_depth<T>(q.value_dim), slab_stride = q.capacity * nr;
  const T *const dout = q.dout + row * nr, *const values = k.values + std::int64_t(tile + from) * depth;
  const std::int64_t at = std::int64_t(row / kPerWord<T>) * kStripStride<T> + from;
  const PanelMask seen = seen_from(q, row, tile + from);
  if constexpr (kPerWord<T> == 1) {
    fill_weights<T, NV, kMasked>(q, k, row, tile + from, strips.p + at, rule);
    score_gradient_block<T, NV, kMasked>(dout, slab_stride, values, depth, q.delta + row, strips.p + at, strips.ds + at,
                                         seen, rule);
  } else {
    fill_weights<T, NV, kMasked>(q, k, row, tile + from, strips.weights, rule);
    score_gradient_pairs<T, NV, kMasked>(dout, slab_stride, values, depth, q.factors + row, q.delta + row,
                                         strips.weights, strips.p + at, strips.ds + at,
                                         halves_of_row(strips, row) + from, seen, rule);
  }
}

/// Computes P and dS of MR rows for a tile of `keys` keys. P and dS outside panels_of() become zero, because
/// add_to_keys() reads P and dS of whole blocks of MR keys.
template <class T, class Rule>
void fill_group(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips, int row, int tile, int keys,
                Rule rule) {
  constexpr int n = kLanes<T>;
  const Range panels = panels_of(q, row, tile, keys);
  for_each_panel(q, row, tile, panels, [&](int j, auto vectors, auto is_masked) {
    fill_panel<T, vectors(), is_masked()>(q, k, strips, row, tile, j, rule);
  });
  const int end = round_up(keys, kRowBlock);
  if (panels.begin == 0 && panels.end >= end) return;
  for (int z = 0; z < end; z += n) {
    if (z >= panels.begin && z < panels.end) continue;
    for (int i = row / kPerWord<T>; i < (row + kRowBlock) / kPerWord<T>; ++i) {
      store(strips.p + i * kStripStride<T> + z, Vec<T>{});
      store(strips.ds + i * kStripStride<T> + z, Vec<T>{});
    }
  }
}

/// For each block of MR keys of a tile:
///   rows    query rows of the chunk that see at least one of the keys, rounded to whole steps of kUnrolledRows
///   ended   KeySums::ended, counted from the block's first key
struct KeyBlocks {
  Range rows[kTileKeys / kRowBlock];
  Range ended[kTileKeys / kRowBlock];
};
template <class T>
ANNULUS_INLINE Range ended_keys(const QueryChunk<T>& q, const KeyChunk<T>& k, int key) {
  if (k.begun_dk == nullptr) return {0, kRowBlock};
  if (!q.ends) return {0, 0};
  const int end = q.end[q.rows - 1];
  return {q.begin[q.rows - 1] - key, end == k.count ? kRowBlock : end - key};  // kRowBlock: padding keys also end
}
template <class T>
ANNULUS_INLINE KeyBlocks blocks_of(const QueryChunk<T>& q, const KeyChunk<T>& k, int tile, int keys) {
  KeyBlocks blocks;
  int first = 0, last = 0;  // rows [first, last) see a key of the block; first and last never fall
  for (int block = 0; block < keys; block += kRowBlock) {
    const int key = tile + block;
    while (first < q.rows && q.end[first] <= key) ++first;
    while (last < q.rows && q.begin[last] < key + kRowBlock) ++last;
    blocks.rows[block / kRowBlock] = {first / kUnrolledRows<T> * kUnrolledRows<T>, round_up(last, kUnrolledRows<T>)};
    blocks.ended[block / kRowBlock] = ended_keys(q, k, key);
  }
  return blocks;
}

/// Returns the sums of dV or dK from index `at` on.
template <class N>
ANNULUS_INLINE KeySums<N> sums_at(N* sums, N* begun, std::int64_t at, bool is_open, const Range& ended) {
  return {sums + at, begun == nullptr ? nullptr : begun + at, is_open, ended};
}

/// Adds P^T dout (or dS^T q) to one slab of dV (or dK) of a tile's keys, block after block of MR keys.
template <class T, int NV>
ANNULUS_INLINE void add_to_slab(const KeyBlocks& blocks, const T* p, const T* b, int keys, int block_stride,
                                const bool* open, Number<T>* sums, Number<T>* begun) {
  for (int block = 0; block < keys; block += kRowBlock) {
    const int number = block / kRowBlock;
    const Range rows = blocks.rows[number];
    if (rows.begin >= rows.end) continue;
    const int first = rows.begin / kPerWord<T>, words = (rows.end - rows.begin) / kPerWord<T>;
    key_gradient_block<T, NV>(
        p + first * kStripStride<T> + block, b + first * kKeyBlock<T>, words,
        sums_at(sums, begun, std::int64_t(number) * block_stride, open[number], blocks.ended[number]));
  }
}

/// After a chunk, notes which blocks of keys still have terms in begun_dk and begun_dv.
template <class T>
ANNULUS_INLINE void keep_open(const KeyBlocks& blocks, const KeyChunk<T>& k, int tile, int keys) {
  for (int number = 0; number * kRowBlock < keys; ++number) {
    if (blocks.rows[number].begin >= blocks.rows[number].end) continue;
    k.open[tile / kRowBlock + number] = blocks.ended[number].begin > 0 || blocks.ended[number].end < kRowBlock;
  }
}

/// Adds to dV and dK of a tile. A slab of dout (or q) stays in the first-level cache while all keys of the tile use it.
template <class T>
void add_to_keys(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips, int tile, int keys) {
  constexpr int nr = kKeyBlock<T>;
  const KeyBlocks blocks = blocks_of(q, k, tile, keys);
  const bool* const open = k.open + tile / kRowBlock;
  const auto add = [&](int s, int columns, const T* strip, const T* rows, Number<T>* sums, Number<T>* begun) {
    const int block_stride = slab_count<T>(columns) * kRowBlock * nr;
    const std::int64_t at = std::int64_t(tile / kRowBlock) * block_stride + s * kRowBlock * nr;
    const T* const b = rows + std::int64_t(s) * (q.capacity / kPerWord<T>)*nr;
    Number<T>* const begun_at = begun == nullptr ? nullptr : begun + at;
    if (columns - s * nr > kLanes<T>)
      add_to_slab<T, 2>(blocks, strip, b, keys, block_stride, open, sums + at, begun_at);
    else
      add_to_slab<T, 1>(blocks, strip, b, keys, block_stride, open, sums + at, begun_at);
  };
  const int of_values = slab_count<T>(q.value_dim), of_keys = slab_count<T>(q.head_dim);
  for (int s = 0; s < of_values || s < of_keys; ++s) {
    if (s < of_values) add(s, q.value_dim, strips.p, q.added_dout, k.dv, k.begun_dv);
    if (s < of_keys) add(s, q.head_dim, strips.ds, q.added_queries, k.dk, k.begun_dk);
  }
  keep_open(blocks, k, tile, keys);
}

template <class T>
void add_to_queries(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips, int tile, int keys) {
  constexpr int nr = kKeyBlock<T>;
  const int slabs = slab_count<T>(q.head_dim);
  for (int row = 0; row < q.rows; row += kRowBlock) {
    const Range panels = panels_of(q, row, tile, keys);
    const int first = panels.begin / kPerWord<T>, count = (panels.end - panels.begin) / kPerWord<T>;
    if (count == 0) continue;
    const T* ds = strips.ds_rows + std::int64_t(row) * (kStripStride<T> / kPerWord<T>)+first;
    for (int s = 0; s < slabs; ++s) {
      Number<T>* acc = q.dq + (std::int64_t(row / kRowBlock) * slabs + s) * kRowBlock * nr;
      const T* rows = k.key_rows + ((std::int64_t(s) * k.capacity + tile) / kPerWord<T> + first) * nr;
      if (q.head_dim - s * nr > kLanes<T>)
        query_gradient_block<T, 2>(ds, rows, count, acc);
      else
        query_gradient_block<T, 1>(ds, rows, count, acc);
    }
  }
}

template <class T>
ANNULUS_INLINE bool sees(const QueryChunk<T>& q, int row, int key) {
  return q.begin[row] <= key && key < q.end[row];
}

/// Adds the terms of the rows that see key number `key` of the chunk to one vector of columns of the key's dV (or dK).
///   p [words][kStripStride]; `p` points to the key   b [words][NR]; `b` points to the first of the columns
template <class T>
ANNULUS_INLINE void add_rows_that_see(const QueryChunk<T>& q, int key, const T* p, const T* b,
                                      const KeySums<Number<T>>& to) {
  Vec<Number<T>> terms[1][1];
  begin_terms<T>(to, terms);
  for (int row = 0; row < q.rows; ++row) {
    const int word = row / kPerWord<T>, i = row % kPerWord<T>;
    if (!sees(q, row, key)) continue;
    multiply_add_one<T>(terms[0][0], broadcast(p[word * kStripStride<T>]), load<Vec<T>>(b + word * kKeyBlock<T>), i);
  }
  end_terms<T>(to, terms);
}

/// Replaces add_to_keys() if some numbers of dout or q are not finite. Leaves out keys that a row does not see, because
/// their weight 0 times infinity is NaN.
template <class T>
__attribute__((noinline)) void add_to_keys_seen(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips,
                                                int tile, int keys) {
  constexpr int nr = kKeyBlock<T>, n = kLanes<T>;
  const KeyBlocks blocks = blocks_of(q, k, tile, keys);
  for (int j = 0; j < keys; ++j) {
    const int key = tile + j, in_block = j % kRowBlock;
    const Range rows = blocks.rows[j / kRowBlock], of_block = blocks.ended[j / kRowBlock];
    if (rows.begin >= rows.end) continue;
    const Range ended{of_block.begin - in_block, of_block.end - in_block};
    const bool is_open = k.open[key / kRowBlock];
    const auto add = [&](int columns, const T* strip, const T* rows, Number<T>* sums, Number<T>* begun) {
      const int slabs = slab_count<T>(columns);
      for (int s = 0; s < slabs; ++s) {
        const std::int64_t at = ((key / kRowBlock * slabs + s) * kRowBlock + key % kRowBlock) * nr;
        const T* const b = rows + std::int64_t(s) * (q.capacity / kPerWord<T>)*nr;
        for (int v = 0; v < nr; v += n)
          add_rows_that_see(q, key, strip + j, b + v, sums_at(sums, begun, at + v, is_open, ended));
      }
    };
    add(q.value_dim, strips.p, q.added_dout, k.dv, k.begun_dv);
    add(q.head_dim, strips.ds, q.added_queries, k.dk, k.begun_dk);
  }
  keep_open(blocks, k, tile, keys);
}

/// Adds the keys of a tile that a row sees, in descending order, to one vector of columns of the row's dQ.
///   ds [words], of this row   b [words][NR]; `b` points to the first of the columns
template <class T>
ANNULUS_INLINE void add_keys_seen(const QueryChunk<T>& q, int row, int tile, int keys, const T* ds, const T* b,
                                  Number<T>* acc) {
  Vec<Number<T>> sum = load<Vec<Number<T>>>(acc);
  for (int j = keys; j-- > 0;) {
    const int word = j / kPerWord<T>, i = kPerWord<T> - 1 - j % kPerWord<T>;
    if (!sees(q, row, tile + j)) continue;
    multiply_add_one<T>(sum, broadcast(ds[word]), load<Vec<T>>(b + word * kKeyBlock<T>), i);
  }
  store(acc, sum);
}

/// Replaces add_to_queries() if some numbers of K are not finite. Leaves out keys that a row does not see, because
/// their dS = 0 times infinity is NaN.
template <class T>
__attribute__((noinline)) void add_to_queries_seen(const QueryChunk<T>& q, const KeyChunk<T>& k,
                                                   const Strips<T>& strips, int tile, int keys) {
  constexpr int nr = kKeyBlock<T>, n = kLanes<T>;
  const int slabs = slab_count<T>(q.head_dim);
  for (int row = 0; row < q.rows; ++row) {
    const T* const ds = strips.ds_rows + std::int64_t(row) * (kStripStride<T> / kPerWord<T>);
    for (int s = 0; s < slabs; ++s) {
      Number<T>* const acc = q.dq + ((std::int64_t(row / kRowBlock) * slabs + s) * kRowBlock + row % kRowBlock) * nr;
      const T* const b = k.key_rows + (std::int64_t(s) * k.capacity + tile) / kPerWord<T> * nr;
      for (int v = 0; v < nr; v += n) add_keys_seen(q, row, tile, keys, ds, b + v, acc + v);
    }
  }
}

template <class T, class Rule>
ANNULUS_INLINE void add_tiles(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips, Rule rule) {
  const DenormalsAreZero for_pairs(kPerWord<T> > 1);
  const int begin = q.begin[0], end = at_most(q.end[q.rows - 1], k.count);
  for (int tile = (k.count - 1) / kTileKeys * kTileKeys; tile >= 0; tile -= kTileKeys) {
    const int keys = at_most(kTileKeys, k.count - tile);
    if (tile >= end || tile + keys <= begin) continue;
    for (int row = 0; row < q.rows; row += kRowBlock) fill_group(q, k, strips, row, tile, keys, rule);
    if (k.dk != nullptr) (q.finite ? add_to_keys<T> : add_to_keys_seen<T>)(q, k, strips, tile, keys);
    if (q.dq != nullptr) (k.finite ? add_to_queries<T> : add_to_queries_seen<T>)(q, k, strips, tile, keys);
  }
}

}  // namespace

template <class T>
void add_chunks(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips) {
  add_tiles(q, k, strips, NoRule());
}
template <class T>
void add_ruled_chunks(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips) {
  alignas(kVectorBytes) Number<T> derivatives[kRowBlock * kStripStride<T>];  // for one panel at a time
  add_tiles(q, k, strips, RuledKeys<Number<T>>{strips.rule, strips.rule->cap > 0 ? derivatives : nullptr, 0, 0});
}

#define ANNULUS_BACKWARD_TILES(T)                                                          \
  template void add_chunks<T>(const QueryChunk<T>&, const KeyChunk<T>&, const Strips<T>&); \
  template void add_ruled_chunks<T>(const QueryChunk<T>&, const KeyChunk<T>&, const Strips<T>&)

#if !defined(ANNULUS_ONLY_PAIRS)
ANNULUS_BACKWARD_TILES(float);
ANNULUS_BACKWARD_TILES(double);
#endif
ANNULUS_BACKWARD_TILES(BFloat16Pair);

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
