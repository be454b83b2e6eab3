// The two register-blocked products: scores with query rows across the lanes, outputs with value columns across them.
#pragma once

#include "annulus/kernels/host/exp2.hpp"
#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/pairs.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Scores of NV vectors of rows against kScoreKeys keys: c[j][v] = sum_d queries[d][v] * keys[j][d], in ascending d
/// (of pairs the odd one first). Those of pairs still lack the score factor.
///   queries [depth][kQueryBlock]   keys [kScoreKeys][depth]
template <class T, int NV>
ANNULUS_INLINE void multiply_scores(const T* queries, const T* keys, int depth, Vec<Number<T>> (&c)[kScoreKeys][NV]) {
  for (int d = 0; d < depth; d += kUnroll<T>) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll<T>; ++u) {
      Vec<T> rows[NV];
#pragma GCC unroll 3
      for (int v = 0; v < NV; ++v) rows[v] = load<Vec<T>>(queries + v * kLanes<T>);
#pragma GCC unroll 8
      for (int j = 0; j < kScoreKeys; ++j) {
        const Vec<T> key = broadcast(keys[j * depth + d + u]);
#pragma GCC unroll 3
        for (int v = 0; v < NV; ++v) multiply_add<T>(c[j][v], key, rows[v]);
      }
      queries += kQueryBlock<T>;
    }
  }
}

template <class T, int NV>
ANNULUS_INLINE void finish_scores(Number<T> factor, Vec<Number<T>> (&c)[kScoreKeys][NV]) {
  if constexpr (kPerWord < T >> 1) {
    const auto wide = broadcast(factor);
#pragma GCC unroll 8
    for (int j = 0; j < kScoreKeys; ++j)
#pragma GCC unroll 3
      for (int v = 0; v < NV; ++v) c[j][v] *= wide;
  }
}

/// Those scores, stored. With kMaximum, row_max takes them in.
///   strip [kScoreKeys][kGroupRows]
template <class T, int NV, bool kMaximum>
__attribute__((noinline)) void score_block(const T* queries, const T* keys, int depth, Number<T> factor,
                                           Number<T>* strip, Vec<Number<T>>* row_max) {
  constexpr int n = kLanes<T>;
  Vec<Number<T>> c[kScoreKeys][NV] = {};
  multiply_scores<T, NV>(queries, keys, depth, c);
  finish_scores<T, NV>(factor, c);
#pragma GCC unroll 3
  for (int v = 0; v < NV; ++v) {
    if constexpr (kMaximum) {
      Vec<Number<T>> most = row_max[v];
#pragma GCC unroll 8
      for (int j = 0; j < kScoreKeys; ++j) most = larger(c[j][v], most);
      row_max[v] = most;
    }
#pragma GCC unroll 8
    for (int j = 0; j < kScoreKeys; ++j) store(strip + j * kGroupRows<T> + v * n, c[j][v]);
  }
}

/// Vectors of rows of running softmax whose maxima stand.
template <class T, int NV>
struct StandingRows {
  Vec<T> shift[NV];      // m - bias
  Vec<T> sum[NV];        // takes in the weights, key after key
  Vec<T> score_sum[NV];  // takes in weights times scores, with kEntropy
  Vec<T> most[NV];       // takes in the scores, to see whether the maxima may stand
};

/// Whether weight_block() pays. Doubles in 16 registers would be spilled by their exp2: 0 to 3 % slower.
template <class T>
constexpr bool kWeighsAtOnce = kVectorRegisters == 32 || sizeof(T) == 4;

/// Those scores as weights 2^(score - shift), straight from the registers. Against scores stored first and weighed
/// strip by strip this gains 2 to 4 % (float, D = 64, full): part of exp2 runs in the shadow of the next block's
/// multiply-adds, and every number is stored once. Spreading exp2 over the next block's product in the source gains no
/// more: GCC then spills accumulators or addresses, and written in assembly it gave 1 to 2 %.
///   strip [kScoreKeys / kPerWord][kGroupRows]
template <class T, int NV, bool kEntropy>
__attribute__((noinline)) void weight_block(const T* queries, const T* keys, int depth, Number<T> factor, T* strip,
                                            StandingRows<Number<T>, NV>& rows) {
  constexpr int n = kLanes<T>;
  Vec<Number<T>> c[kScoreKeys][NV] = {};
  multiply_scores<T, NV>(queries, keys, depth, c);
  finish_scores<T, NV>(factor, c);
#pragma GCC unroll 3
  for (int v = 0; v < NV; ++v) {
    Vec<Number<T>> most = rows.most[v];
#pragma GCC unroll 8
    for (int j = 0; j < kScoreKeys; ++j) most = larger(c[j][v], most);
    rows.most[v] = most;
  }
  Vec<Number<T>> shift[NV], sum[NV];
#pragma GCC unroll 3
  for (int v = 0; v < NV; ++v) {
    shift[v] = rows.shift[v];
    sum[v] = rows.sum[v];
  }
#pragma GCC unroll 8
  for (int j = 0; j < kScoreKeys; j += kPerWord<T>) {
#pragma GCC unroll 3
    for (int v = 0; v < NV; ++v) {
      Vec<Number<T>> weight[kPerWord<T>];
      for (int i = 0; i < kPerWord<T>; ++i) weight[i] = c[j + i][v];
      exp2_of<Number<T>>(weight, shift[v]);
      store(strip + j / kPerWord<T> * kGroupRows<T> + v * n, words_of<T>(weight));
      for (int i = 0; i < kPerWord<T>; ++i) {
        sum[v] += weight[i];
        if constexpr (kEntropy) accumulate(rows.score_sum[v], weight[i], c[j + i][v]);
      }
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < NV; ++v) rows.sum[v] = sum[v];
}

/// c[i] += strip[i] * values for the MR rows and NV vectors of a word of keys.
template <class T, int NV>
ANNULUS_INLINE void add_value(const T* strip, const T* values, Vec<Number<T>> (&c)[kRowBlock][NV]) {
  Vec<T> b[NV];
#pragma GCC unroll 2
  for (int v = 0; v < NV; ++v) b[v] = load<Vec<T>>(values + v * kLanes<T>);
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i) {
    const Vec<T> a = broadcast(strip[i]);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) multiply_add<T>(c[i][v], a, b[v]);
  }
}

/// Adds the weighted values of `keys` words of keys to MR rows of one slab of NV vectors of the accumulator, one after
/// another:
/// acc[i][...] += sum_j strip[j][i] * values[j][...].
///   strip [keys][kGroupRows]   values [keys][NR]   acc [MR][NR]
template <class T, int NV>
__attribute__((noinline)) void value_block(const T* strip, const T* values, int keys, Number<T>* acc) {
  constexpr int n = kLanes<T>, row = kGroupRows<T>, block = kKeyBlock<T>;
  Vec<Number<T>> c[kRowBlock][NV];
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) c[i][v] = load<Vec<Number<T>>>(acc + i * block + v * n);
  for (; keys >= kUnroll<T>; keys -= kUnroll<T>) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll<T>; ++u) add_value<T, NV>(strip + u * row, values + u * block, c);
    strip += kUnroll<T> * row;
    values += kUnroll<T> * block;
  }
  for (; keys > 0; --keys, strip += row, values += block) add_value<T, NV>(strip, values, c);
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) store(acc + i * block + v * n, c[i][v]);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
