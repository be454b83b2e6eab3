// The arguments of the backward and statistic tiles. This header has plain data only, because files with different
// compiler flags include it (tile_functions.hpp).
//
// Let s2 = scale * log2(e) * q.k and P = factor * 2^(s2 - shift) (normalizer.hpp). If words are numbers, rows are
// packed as q' = scale * log2(e) * q and dout' = factor * output_scale * dout, and delta' = factor * delta. The five
// products of the backward pass are:
//   S = q' K^T    E = 2^(S - shift)    dP = dout' V^T    dS = E (dP - delta')
//   dV += E^T dout'    dK += dS^T q'    dQ += dS K
// E is P without the row's factor. dout' and delta' contain this factor instead. There it costs almost nothing, because
// packing multiplies rows anyway. So accumulators of dv hold dv, those of dk hold log2(e) dk, those of dq dq / scale.
//
// In precision bfloat16 words are pairs, q and dout are packed as they are stored, and P contains output_scale:
//   S = score_factor * q K^T    P = factor * output_scale * 2^(S - shift)    dS = P (dout V^T - delta / output_scale)
//   dV += P^T dout    dK += dS^T q    dQ += dS K
// P and dS are rounded to bfloat16 for the last three products. Accumulators of dk hold dk / scale. The set amx has its
// panels in tiles (amx/backward_pack.hpp); amx/split_backward.cpp has those for numbers in parts.
#pragma once

#include "annulus/kernels/host/ruled_pairs.hpp"
#include "annulus/kernels/host/words.hpp"

namespace annulus::kernels::host {

/// Rows for which E is made, at most `capacity`, private to a thread. A row is a (query row, head) pair. The D numbers
/// of each row are cut into slabs of NR words (TileFunctions::column_block):
///   queries     [slab][capacity][NR]    q' (pairs: q); padding rows, up to `rows`, are zero
///   shift       [capacity]              +inf for rows that add nothing
///   begin, end  [capacity]              the row sees keys begin ... end - 1 of the chunk; from row to row, begin and
///                                       end never fall
template <class T>
struct ScoreRows {
  T* queries;
  Number<T>* shift;
  int* begin;
  int* end;
  int rows;  // a multiple of backward_row_step
  int capacity;
  int head_dim;
  Number<T> score_factor;  // scale * log2(e); in precision bfloat16 tiles multiply sums by it
};

/// `count` keys in ascending order, private to a thread. Keys from `count` on, up to `capacity`, are zero.
///   keys  [panel][depth][NR]    NR keys side by side
template <class T>
struct ScoreKeys {
  T* keys;
  int count;
  int capacity;  // a multiple of key_panel
};

/// Extends ScoreRows by what gradients need. A row of dout has as many numbers as a value, Dv:
///   dout     [slab][capacity][NR]     dout' (pairs: dout); padding rows are zero, as in queries
///   dq       [group][slab][MR][NR]    groups of MR rows; null: not wanted
///   added_queries, added_dout         queries and dout for the products that add to dK and dV. If words are numbers,
///            these are queries and dout; pairs: [slab][capacity / 2][NR], a word has numbers of two successive rows
///   delta    [capacity]               delta' (pairs: delta / output_scale)
///   factors  [capacity]               factor * output_scale, by which dout (pairs: E) is multiplied
///   finite                            queries and dout are finite; if so, weight 0 is enough to leave out unseen keys
///   ends                              the chunk's last row is the last row of a block of rows (GradientViews)
///   by_granules                       matrix units add terms to dk and dv 32 rows at a time, not a chunk at a time
template <class T>
struct QueryChunk : ScoreRows<T> {
  int value_dim;
  T* dout;
  T* added_queries;
  T* added_dout;
  Number<T>* dq;
  Number<T>* delta;
  Number<T>* factors;
  bool finite;
  bool ends;
  bool by_granules;
};

/// Extends ScoreKeys by what gradients need:
///   values    [panel][depth][NR]       like the keys, with Dv numbers each
///   key_rows  [slab][capacity][NR]     NR columns side by side. Pairs: [slab][capacity / 2][NR], where a word has
///                                      numbers of two successive keys
///   dk, dv    [block][slab][MR][NR]    blocks of MR keys that cover `capacity`; null: not wanted
///   begun_dk, begun_dv                 like dk, dv: terms of an unfinished block of rows; null: each chunk is a block
///   open      [block]                  whether begun_dk and begun_dv may be nonzero for the block's MR keys
///   finite                             all numbers of key_rows are finite
template <class T>
struct KeyChunk : ScoreKeys<T> {
  T* key_rows;
  T* values;
  Number<T>* dk;
  Number<T>* dv;
  Number<T>* begun_dk;
  Number<T>* begun_dv;
  bool* open;
  bool finite;
};

/// The memory in which statistics of the weights E of some rows (ScoreRows) and keys (ScoreKeys) are added up.
///   received    [slots][capacity of the keys]    sums of factor * E, a slot for each query head of the key/value head
///   slots       [capacity of the queries]        the slot of each row
///   factors     [capacity of the queries]        the factor of each row
///   thresholds  [capacity of the queries]        admit() is called for each weight E above its row's threshold, which
///                                                is at least 0; admit() may raise the threshold
template <class T>
struct StatisticSums {
  double* received;
  const int* slots;
  const double* factors;
  T* thresholds;  // null: no row wants its largest weights
  void (*admit)(void* lists, int row, int key, T weight);
  void* lists;
  const RuledPairs<T>* rule = nullptr;  // for the rows and keys of the chunks
};

/// P (if words are numbers: E) and dS of one tile of keys. They stay in the caches from the products that make them to
/// the products that read them.
///   p, ds    [capacity of the queries][strip_stride]      pairs: two rows share a word, [capacity / 2][strip_stride]
///   ds_rows  dS again, for the products that add to dQ. Numbers: ds itself; pairs: two keys share a word,
///            [capacity][strip_stride / 2]
///   weights  [MR][strip_stride]                           pairs: E of the current MR rows; numbers: null
template <class T>
struct Strips {
  T* p;
  T* ds;
  T* ds_rows;
  Number<T>* weights;
  const RuledPairs<Number<T>>* rule = nullptr;  // for the rows and keys of the chunks
};

}  // namespace annulus::kernels::host
