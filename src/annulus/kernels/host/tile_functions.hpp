// TileFunctions, the table of functions that each instruction set defines, and the arguments of these functions.
//
// This header is compiled with AVX-512 flags in one file and without them in another. So it has only data and function
// pointers, and neither contains nor includes functions. The linker keeps only one copy of an inline function for the
// whole program. This could be the AVX-512 copy, which other processors cannot run.
#pragma once

#include <cstdint>

#include "annulus/kernels/host/backward_chunks.hpp"
#include "annulus/kernels/host/words.hpp"

namespace annulus::kernels::host {

/// The 16-bit storage types. Those of core/storage.hpp cannot be used here, because that header needs Kokkos.
struct HalfBits {
  std::uint16_t bits;
};
struct BFloat16Bits {
  std::uint16_t bits;
};

/// Number of storage types. Element [i] of an array of functions is for the type whose core::DType value is i.
inline constexpr int kStorageTypes = 4;

/// kMaxHeadDim: the largest head size of keys and of values. kMaxMatrixDim: the largest head size that matrix units
/// take.
inline constexpr int kMaxHeadDim = 576;
inline constexpr int kMaxMatrixDim = 256;

/// Query rows of one task and their running softmax, private to a thread. A row is a (query row, head) pair. The rows
/// are cut into groups of G rows; G is a multiple of W, the rows of a block of scores. Only one group and one strip of
/// keys (strip_keys successive keys) at a time have scores in memory. The D numbers of a query take `depth` words. An
/// accumulator has Dv columns, padded to a multiple of column_step.
///   queries  [rows / W][depth][W]         already multiplied by scale * log2(e), except in precision bfloat16
///   acc      [rows / G][column][G]        sum of the weights times their values
///   max      [rows]                       m: an even integer, or -inf if the row has seen no key yet
///   sum      [rows]                       l: the sum of the weights
///   score_sum [rows]                      sum of the weights times their scores; nullptr: not wanted
/// Row i sees the keys at positions [begin[i], end[i]) of the item's keys. From row to row, begin and end never rise,
/// because rows are in ascending order of their comb index t, and keys in descending order. Padding rows after `rows`,
/// up to a whole group, may have any queries.
template <class T>
struct QueryPanels {
  T* queries;
  Number<T>* acc;
  Number<T>* max;
  Number<T>* sum;
  Number<T>* score_sum;
  const std::int64_t* begin;
  const std::int64_t* end;
  std::int64_t rows;
  int head_dim;
  int value_dim;                                // columns of acc and of values
  Number<T> exponent_bias;                      // weights are 2^(score - m + exponent_bias)
  Number<T> score_factor;                       // scale * log2(e); in precision bfloat16 tiles multiply q.k by it
  const RuledPairs<Number<T>>* rule = nullptr;  // for all rows and the tile's keys; only add_ruled_tile reads it
};

/// `count` keys of an item, in descending order of t, from position `first` on; private to a thread:
///   keys    [key][depth]            zero beyond D; after the last key, up to a multiple of key_step: any numbers
///   values  [column][capacity]      zero beyond Dv; a word has a number of one key, or numbers of two successive keys
/// (The set amx has keys and values in tiles, see amx/pack_tiles.hpp.)
///   finite                          all values are finite; if so, weight 0 is enough to leave out an unseen key
template <class T>
struct KeyTile {
  T* keys;
  T* values;
  bool finite;
  std::int64_t first;
  int count;
  int capacity;  // words of a column, each for one or two keys; whole vectors
};

/// The factors by which rows are multiplied while they are packed: of[i * step] for row i. If step is 0, all rows have
/// the same factor.
template <class T>
struct RowFactors {
  const T* of;
  int step;
};

/// The operations of one instruction set on words T. A row is given by the address of its first number.
template <class T>
struct TileFunctions {
  int group_rows;              // G
  int query_step;              // query rows are packed in multiples of this; it divides W
  int row_block;               // MR: backward, rows (or keys) of a block of sums
  int column_block;            // NR, two vectors: backward, columns of a slab, or keys of a panel
  int key_step;                // forward: a tile has memory for a multiple of this many keys
  int strip_keys;              // forward: keys of a strip; a group computes scores of one strip at a time
  int parts = 1;               // a number is the sum of this many bfloat16 numbers, its parts (amx/split.hpp)
  int key_granule = 1;         // keys that one instruction adds (a granule); granules start at the piece's first row
  int forward_depth_step = 1;  // forward: words of a row are padded to a multiple of this
  int depth_step;              // backward: words of a row are padded to a multiple of this
  int column_step;             // forward: columns of values and accumulators are padded to a multiple of this
  int backward_row_step;       // query rows of a chunk are padded to a multiple of this
  int backward_key_step;       // a task has a multiple of this many keys unless the item ends; MR and NR divide this
  int key_panel;               // backward: a task's keys are padded to a multiple of this (vectors: NR)
  int strip_stride;            // words from one row of P (or dS) to the next (Strips)

  // A function is null if rows of the storage type cannot be packed into words T. Pairs without parts are made only
  // from bfloat16, pairs with parts only from float32 and float16. Functions that pack pairs without parts ignore the
  // factor.
  using Pack = void (*)(const void* const* rows, std::int64_t count, int head_dim, Number<T> factor, T* panels);
  /// pack_queries packs rows as [panel][depth][W], pack_transposed as [panel][depth][NR]; all numbers are multiplied by
  /// `factor`. `count` is a multiple of query_step (pack_queries) or of NR (pack_transposed).
  Pack pack_queries[kStorageTypes];
  Pack pack_transposed[kStorageTypes];
  /// Packs rows as [key][depth].
  void (*pack_rows[kStorageTypes])(const void* const* rows, int count, int head_dim, T* keys);
  /// Packs rows as [column][capacity], with zeros after the last row up to a whole vector; `capacity` fills whole
  /// vectors. Returns whether all numbers are finite, as PackSlabs does.
  bool (*pack_values[kStorageTypes])(const void* const* rows, int count, int head_dim, int capacity, T* values);
  using PackSlabs = bool (*)(const void* const* rows, int count, int head_dim, int capacity,
                             const RowFactors<Number<T>>& factors, T* slabs);
  /// Pack rows as [slab][capacity][NR], every number times the factor of its row. The functions differ in what a word
  /// holds, and in which of a word's two rows products add first:
  ///   pack_slabs             a word has a number of one row, or numbers of two rows, the first row added first
  ///   pack_descending_slabs  the same, but the second row is added first
  ///   pack_row_slabs         a word has a number, or two successive numbers, of one row
  PackSlabs pack_slabs[kStorageTypes];
  PackSlabs pack_descending_slabs[kStorageTypes];
  PackSlabs pack_row_slabs[kStorageTypes];
  /// Copy accumulators of `count` rows to [group][column][G], and back. Loading writes zeros for rows from `count` to
  /// `padded` (a multiple of query_step), for rows whose address is null, and for columns beyond head_dim.
  void (*load_columns)(const Number<T>* const* rows, std::int64_t count, std::int64_t padded, int head_dim,
                       Number<T>* groups);
  void (*store_columns)(const Number<T>* groups, std::int64_t count, int head_dim, Number<T>* const* rows);
  /// Copy accumulators of `count` rows to [block][slab][MR][NR], and back. Loading writes zeros for rows from `count`
  /// to `padded`, a multiple of MR, and for columns beyond head_dim.
  void (*load_rows)(const Number<T>* const* rows, std::int64_t count, std::int64_t padded, int head_dim,
                    Number<T>* blocks);
  void (*store_rows)(const Number<T>* blocks, std::int64_t count, int head_dim, Number<T>* const* rows);
  /// Do the same for dq. Matrix units keep dq as dQ^T (amx/backward_pack.hpp).
  void (*load_query_sums)(const Number<T>* const* rows, std::int64_t count, std::int64_t padded, int head_dim,
                          Number<T>* sums);
  void (*store_query_sums)(const Number<T>* sums, std::int64_t count, int head_dim, Number<T>* const* rows);

  /// Forward: adds the tile's keys, one after another, to the rows that see them. `scores` is scratch memory for
  /// G * strip_keys numbers. Element [1] is for panels with a score_sum.
  void (*add_tile[2])(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores);
  /// Does the same for scores that have a cap or a bias (RuledPairs). add_chunks and add_statistics also have such
  /// variants. Tables of matrix units have no variants for rules, no add_statistics and no add_tile[1].
  void (*add_ruled_tile[2])(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores);
  /// Backward: adds the terms of the two chunks' (row, key) pairs. A row's dq takes keys one after another in
  /// descending order. A key's dk and dv take rows in ascending order.
  void (*add_chunks)(const QueryChunk<T>& queries, const KeyChunk<T>& keys, const Strips<T>& strips);
  void (*add_ruled_chunks)(const QueryChunk<T>& queries, const KeyChunk<T>& keys, const Strips<T>& strips);
  /// Adds up the statistics of the two chunks' (row, key) pairs. A key's sums take rows one after another in ascending
  /// order.
  void (*add_statistics)(const ScoreRows<T>& queries, const ScoreKeys<T>& keys, const StatisticSums<Number<T>>& sums);
  void (*add_ruled_statistics)(const ScoreRows<T>& queries, const ScoreKeys<T>& keys,
                               const StatisticSums<Number<T>>& sums);

  /// Returns sum_d a[d] * b[d]; a and b have the storage type.
  Number<T> (*dot[kStorageTypes])(const void* a, const void* b, int head_dim);
  /// Sets out[0 .. head_dim) = acc * factor + 0, rounded to the storage type. Adding 0 turns -0 into 0.
  void (*store_row[kStorageTypes])(const Number<T>* acc, int head_dim, Number<T> factor, void* out);
};

// The tables of each compiled instruction set. The macros ANNULUS_HAS_X86_TILES and ANNULUS_HAS_AMX_TILES say which
// tables exist; the processor decides which can be used (core/instruction_set.hpp). Memory passed to functions is
// aligned to 64 bytes, but rows of tensors need not be.
namespace baseline {
extern const TileFunctions<float> float_tiles;
extern const TileFunctions<double> double_tiles;
extern const TileFunctions<BFloat16Pair> pair_tiles;
}  // namespace baseline
namespace avx2 {
extern const TileFunctions<float> float_tiles;
extern const TileFunctions<double> double_tiles;
extern const TileFunctions<BFloat16Pair> pair_tiles;
}  // namespace avx2
namespace avx512 {
extern const TileFunctions<float> float_tiles;
extern const TileFunctions<double> double_tiles;
extern const TileFunctions<BFloat16Pair> pair_tiles;
}  // namespace avx512
/// The table of pairs for processors with AVX-512 and an instruction for pairs. It gives the same bits as
/// avx512::pair_tiles.
namespace avx512_bf16 {
extern const TileFunctions<BFloat16Pair> pair_tiles;
}  // namespace avx512_bf16

/// Computes C += A B as the matrix unit does. A, B and C are tiles of 16 rows of 64 bytes (amx/tile_registers.hpp).
using MultiplyTiles = void (*)(const void* a, const void* b, float* c);

/// The functions of a matrix unit. Element [parts - 1] is for numbers that are sums of `parts` bfloat16 numbers. A
/// table of `forward` or `backward` has only the functions that this pass needs.
struct MatrixTiles {
  const TileFunctions<BFloat16Pair>* forward[3];
  const TileFunctions<BFloat16Pair>* backward[3];
  MultiplyTiles multiply;
};
// The set amx. The first table is for matrix units, the others use vectors instead and compute the same bits.
namespace amx {
extern const MatrixTiles tiles;
}  // namespace amx
namespace amx_avx512 {
extern const MatrixTiles tiles;
}  // namespace amx_avx512
namespace amx_avx2 {
extern const MatrixTiles tiles;
}  // namespace amx_avx2
namespace amx_baseline {
extern const MatrixTiles tiles;
}  // namespace amx_baseline

}  // namespace annulus::kernels::host
