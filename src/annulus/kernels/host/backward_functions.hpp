// What the instruction-set files offer for gradients and what they are told: plain data and function pointers, for the
// reasons given in tile_functions.hpp.
//
// With s2 = scale * log2(e) * q.k, P = factor * 2^(s2 - shift) (normalizer.hpp), G = factor * output_scale * dout,
// delta' = factor * delta and Q = scale * log2(e) * q, a tile is five products:
//   S = Q K^T    E = 2^(S - shift)    dP = G V^T    dS = E (dP - delta')
//   dV += E^T G    dK += dS^T Q    dQ += dS K
// where a row's factor, which is all that E lacks of P, has gone into what else the row brings: it costs nothing here.
// so accumulators of dv hold dv, those of dk hold log2(e) dk, those of dq hold dq / scale.
#pragma once

#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host {

/// Up to `capacity` query rows (a row is a (query row, head) pair) against the keys of a KeyChunk, private to a thread.
/// With D cut into slabs of NR columns:
///   queries, dout  [slab][capacity][NR]     Q and G; rows beyond the real ones, up to `rows`, are zero
///   dq             [group][slab][MR][NR]    groups of MR rows
///   shift, delta   [capacity]               delta'; shift = +inf for rows that give nothing
///   factors        [capacity]               of dout: factor * output_scale
///   begin, end     [capacity]               the row sees keys begin ... end - 1 of the chunk; both ascend with the row
template <class T>
struct QueryChunk {
  T* queries;
  T* dout;
  T* dq;
  T* shift;
  T* delta;
  T* factors;
  int* begin;
  int* end;
  int rows;  // a multiple of row_step
  int capacity;
  int head_dim;
};

/// `count` keys in ascending order, private to a thread:
///   keys, values  [panel][depth][NR]       NR keys side by side
///   key_rows      [slab][capacity][NR]     NR columns side by side
///   dk, dv        [block][slab][MR][NR]    blocks of MR keys
/// Keys beyond `count`, up to `capacity`, are zero.
template <class T>
struct KeyChunk {
  T* keys;
  T* key_rows;
  T* values;
  T* dk;
  T* dv;
  int count;
  int capacity;  // a multiple of key_step
};

/// E and dS of one tile, [capacity of the queries][strip_stride] numbers each, in the caches from step to step.
template <class T>
struct Strips {
  T* p;
  T* ds;
};

/// What rows are multiplied by while they are packed: row i by of[i * step], where a step of 0 means one for all.
template <class T>
struct RowFactors {
  const T* of;
  int step;
};

/// The operations of one instruction set in arithmetic type T. Rows are given as addresses of their first number.
template <class T>
struct BackwardFunctions {
  int row_block;     // MR
  int key_block;     // NR, two vectors
  int depth_step;    // D is padded to a multiple of this
  int row_step;      // query rows are padded to a multiple of this
  int key_step;      // and keys of this: the least common multiple of MR and NR
  int strip_stride;  // of P and dS
  /// rows: [count] addresses, count a multiple of NR. What is to become zero is given as the address of a zero row.
  void (*pack_transposed[kStorageTypes])(const void* const* rows, int count, int head_dim, T* panels);
  /// rows: [count] addresses; every number of row i times its factor.
  void (*pack_slabs[kStorageTypes])(const void* const* rows, int count, int head_dim, int capacity,
                                    const RowFactors<T>& factors, T* slabs);
  /// Accumulators of `count` rows to and from [block][slab][MR][NR]; loading fills rows up to `padded`, a multiple of
  /// MR, and columns beyond head_dim with zeros.
  void (*load_rows)(const T* const* rows, int count, int padded, int head_dim, T* blocks);
  void (*store_rows)(const T* blocks, int count, int head_dim, T* const* rows);
  /// Adds what the pairs of the two chunks contribute to dq, dk and dv: to dq key after key, descending, to dk and dv
  /// row after row, ascending.
  void (*add_chunks)(const QueryChunk<T>& queries, const KeyChunk<T>& keys, const Strips<T>& strips);
  /// sum_d a[d] * b[d]; both of the storage type.
  T (*dot[kStorageTypes])(const void* a, const void* b, int head_dim);
  /// out[0 .. head_dim) = acc * factor, rounded to the storage type.
  void (*store_row[kStorageTypes])(const T* acc, int head_dim, T factor, void* out);
};

namespace baseline {
extern const BackwardFunctions<float> float_backward;
extern const BackwardFunctions<double> double_backward;
}  // namespace baseline
namespace avx2 {
extern const BackwardFunctions<float> float_backward;
extern const BackwardFunctions<double> double_backward;
}  // namespace avx2
namespace avx512 {
extern const BackwardFunctions<float> float_backward;
extern const BackwardFunctions<double> double_backward;
}  // namespace avx512

}  // namespace annulus::kernels::host
