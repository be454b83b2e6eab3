// What the backward tiles work on: plain data, for the reasons given in tile_functions.hpp.
//
// With s2 = scale * log2(e) * q.k, P = factor * 2^(s2 - shift) (normalizer.hpp), G = factor * output_scale * dout,
// delta' = factor * delta and Q = scale * log2(e) * q, a tile is five products:
//   S = Q K^T    E = 2^(S - shift)    dP = G V^T    dS = E (dP - delta')
//   dV += E^T G    dK += dS^T Q    dQ += dS K
// where a row's factor, which is all that E lacks of P, has gone into what else the row brings: it costs nothing here.
// So accumulators of dv hold dv, those of dk hold log2(e) dk, those of dq hold dq / scale.
#pragma once

namespace annulus::kernels::host {

/// Up to `capacity` query rows (a row is a (query row, head) pair) against keys, private to a thread: what E is made
/// of. With D cut into slabs of NR columns:
///   queries     [slab][capacity][NR]    Q; rows beyond the real ones, up to `rows`, are zero
///   shift       [capacity]              +inf for rows that give nothing
///   begin, end  [capacity]              the row sees keys begin ... end - 1 of the chunk; both ascend with the row
template <class T>
struct ScoreRows {
  T* queries;
  T* shift;
  int* begin;
  int* end;
  int rows;  // a multiple of row_step
  int capacity;
  int head_dim;
};

/// `count` keys in ascending order, private to a thread; those beyond, up to `capacity`, are zero.
///   keys  [panel][depth][NR]    NR keys side by side
template <class T>
struct ScoreKeys {
  T* keys;
  int count;
  int capacity;  // a multiple of backward_key_step
};

/// With what gradients need:
///   dout     [slab][capacity][NR]     G, zero like the queries
///   dq       [group][slab][MR][NR]    groups of MR rows; none: not wanted
///   delta    [capacity]               delta'
///   factors  [capacity]               of dout: factor * output_scale
template <class T>
struct QueryChunk : ScoreRows<T> {
  T* dout;
  T* dq;
  T* delta;
  T* factors;
};

///   values    [panel][depth][NR]       like the keys
///   key_rows  [slab][capacity][NR]     NR columns side by side
///   dk, dv    [block][slab][MR][NR]    blocks of MR keys; none: not wanted
template <class T>
struct KeyChunk : ScoreKeys<T> {
  T* key_rows;
  T* values;
  T* dk;
  T* dv;
};

/// Where statistics of E go, for the rows and keys of two chunks.
///   received    [slots][capacity of the keys]    sums of factor * E, a slot for each query head of the key/value head
///   slots       [capacity of the queries]        of the rows
///   factors     [capacity of the queries]
///   thresholds  [capacity of the queries]        admit() is told of weights E above them, and may raise them; no less
///                                                than 0
template <class T>
struct StatisticSums {
  double* received;
  const int* slots;
  const double* factors;
  T* thresholds;  // none: no row asks for its largest weights
  void (*admit)(void* lists, int row, int key, T weight);
  void* lists;
};

/// E and dS of one tile, [capacity of the queries][strip_stride] numbers each, in the caches from step to step.
template <class T>
struct Strips {
  T* p;
  T* ds;
};

}  // namespace annulus::kernels::host
