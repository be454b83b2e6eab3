// The two register-blocked products, MR rows x NV vectors (NV = 2, or 1 where half a block is left).
#pragma once

#include "annulus/kernels/host/layout.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Scores of MR rows against one panel of keys: strip[i][0 .. NV vectors) = sum_d queries[d][i] * keys[d][...], every
/// sum in ascending d. With kMaximum, row_max[i] takes in the new scores.
///   queries [depth][MR]   keys [depth][NR]   strip [MR][kMaxKeys]
template <class T, int NV, bool kMaximum>
ANNULUS_INLINE void score_block(const T* queries, const T* keys, int depth, T* strip, Vec<T>* row_max) {
  constexpr int n = kLanes<T>;
  Vec<T> c[kRowBlock][NV] = {};
  for (int d = 0; d < depth; d += kUnroll<T>) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll<T>; ++u) {
      Vec<T> b[NV];
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) b[v] = load<Vec<T>>(keys + v * n);
#pragma GCC unroll 16
      for (int i = 0; i < kRowBlock; ++i) {
        const Vec<T> a = broadcast(queries[i]);
#pragma GCC unroll 2
        for (int v = 0; v < NV; ++v) accumulate(c[i][v], a, b[v]);
      }
      queries += kRowBlock;
      keys += kKeyBlock<T>;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      store(strip + i * kMaxKeys<T> + v * n, c[i][v]);
      if constexpr (kMaximum) row_max[i] = larger(c[i][v], row_max[i]);
    }
  }
}

/// Adds the weighted values of `keys` keys (a multiple of kUnroll) to one slab of the accumulator, key after key:
/// acc[i][...] += sum_j strip[i][j] * values[j][...].
///   strip [MR][kMaxKeys]   values [keys][NR]   acc [MR][NR]
template <class T, int NV>
ANNULUS_INLINE void value_block(const T* strip, const T* values, int keys, T* acc) {
  constexpr int n = kLanes<T>;
  Vec<T> c[kRowBlock][NV];
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) c[i][v] = load<Vec<T>>(acc + i * kKeyBlock<T> + v * n);
  for (int j = 0; j < keys; j += kUnroll<T>) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll<T>; ++u) {
      Vec<T> b[NV];
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) b[v] = load<Vec<T>>(values + v * n);
#pragma GCC unroll 16
      for (int i = 0; i < kRowBlock; ++i) {
        const Vec<T> a = broadcast(strip[i * kMaxKeys<T> + u]);
#pragma GCC unroll 2
        for (int v = 0; v < NV; ++v) accumulate(c[i][v], a, b[v]);
      }
      values += kKeyBlock<T>;
    }
    strip += kUnroll<T>;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) store(acc + i * kKeyBlock<T> + v * n, c[i][v]);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
