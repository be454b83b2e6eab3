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
  int capacity;  // a multiple of backward_key_step
};

/// E and dS of one tile, [capacity of the queries][strip_stride] numbers each, in the caches from step to step.
template <class T>
struct Strips {
  T* p;
  T* ds;
};

}  // namespace annulus::kernels::host
