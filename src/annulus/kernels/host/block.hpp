// One matrix product, blocked for registers, serves both products of the forward pass. Query rows lie across the lanes
// of vectors. Each number of the other factor is broadcast to all lanes: for scores it is a number of a key, for
// outputs a number of a column of the values.
#pragma once

#include "annulus/kernels/host/exp2.hpp"
#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/pairs.hpp"
#include "annulus/kernels/host/ruled_scores.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Multiplies NV vectors of rows by C columns: c[j][v] += sum_k rows[k][v] * columns[j][k]. k counts words, in
/// ascending order (in a pair the odd half comes first). For scores, each column is a key.
///   rows [count][kRows]; `rows` points to the first of the vectors   columns [C][stride]
template <class T, int kRows, int C, int NV>
ANNULUS_INLINE void add_column_products(const T* rows, const T* columns, int stride, int count,
                                        Vec<Number<T>> (&c)[C][NV]) {
  const auto add = [&](const T* row, int k) ANNULUS_INLINE_MEMBER {
    Vec<T> x[NV];
#pragma GCC unroll 3
    for (int v = 0; v < NV; ++v) x[v] = load<Vec<T>>(row + v * kLanes<T>);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      const Vec<T> number = broadcast(columns[j * stride + k]);
#pragma GCC unroll 3
      for (int v = 0; v < NV; ++v) multiply_add<T>(c[j][v], number, x[v]);
    }
  };
  int k = 0;
  for (; k + kUnroll<T> <= count; k += kUnroll<T>, rows += kUnroll<T> * kRows) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll<T>; ++u) add(rows + u * kRows, k + u);
  }
  for (; k < count; ++k, rows += kRows) add(rows, k);
}

/// If words are pairs, multiplies scores by the score factor, because packed queries do not contain it.
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

/// Computes the scores of NV vectors of rows and kScoreKeys keys, changes them by the rule (ruled_scores.hpp), and
/// stores them. With kMaximum, row_max is raised to the rows' largest scores.
///   queries [depth][kQueryBlock]   keys [kScoreKeys][depth]
///   strip [kScoreKeys][kGroupRows]
template <class T, int NV, bool kMaximum, class Rule>
__attribute__((noinline)) void score_block(const T* queries, const T* keys, int depth, Number<T> factor,
                                           Number<T>* strip, Vec<Number<T>>* row_max, Rule rule) {
  constexpr int n = kLanes<T>;
  Vec<Number<T>> c[kScoreKeys][NV] = {};
  add_column_products<T, kQueryBlock<T>, kScoreKeys, NV>(queries, keys, depth, depth, c);
  finish_scores<T, NV>(factor, c);
  if constexpr (Rule::changes) rule.template change<kScoreKeys, NV>(c);
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

/// Running softmax of NV vectors of rows whose m does not change.
template <class T, int NV>
struct StandingRows {
  Vec<T> shift[NV];      // m - bias
  Vec<T> sum[NV];        // weights are added to it, key after key
  Vec<T> score_sum[NV];  // with kEntropy: weights times scores are added to it
  Vec<T> most[NV];       // the largest of m and the scores so far; m must rise if this is above it
};

/// True if weight_block() is faster than score_block() followed by weigh_rows(). For doubles in 16 registers
/// weight_block() is 0 to 3 % slower, because exp2 spills registers.
template <class T>
constexpr bool kWeighsAtOnce = kVectorRegisters == 32 || sizeof(T) == 4;

/// Does the same as score_block(), but computes weights 2^(score - shift) while the scores are in registers, stores the
/// weights, and adds them to the rows' sums. This is 2 to 4 % faster than storing scores first (float, D = 64, no
/// mask), because part of exp2 runs at the same time as the next block's multiply-adds, and every number is stored
/// once. Interleaving exp2 with the next block's product in the source gains nothing more in C++, because GCC then
/// spills accumulators or addresses; in assembly this gained 1 to 2 %.
///   strip [kScoreKeys / kPerWord][kGroupRows]
template <class T, int NV, bool kEntropy, class Rule>
__attribute__((noinline)) void weight_block(const T* queries, const T* keys, int depth, Number<T> factor, T* strip,
                                            StandingRows<Number<T>, NV>& rows, Rule rule) {
  constexpr int n = kLanes<T>;
  Vec<Number<T>> c[kScoreKeys][NV] = {};
  add_column_products<T, kQueryBlock<T>, kScoreKeys, NV>(queries, keys, depth, depth, c);
  finish_scores<T, NV>(factor, c);
  if constexpr (Rule::changes) rule.template change<kScoreKeys, NV>(c);
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
      store(strip + j / kPerWord<T> * kGroupRows<T> + v * n, round_to_words<T>(weight));
      for (int i = 0; i < kPerWord<T>; ++i) {
        sum[v] += weight[i];
        if constexpr (kEntropy) {  // a score that overflowed to -inf has weight 0, and 0 times -inf would be NaN
          const Vec<Number<T>> score = c[j + i][v];
          accumulate(rows.score_sum[v], weight[i], score > -Number<T>(__builtin_inf()) ? score : Vec<Number<T>>{});
        }
      }
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < NV; ++v) rows.sum[v] = sum[v];
}

/// Adds the values of keys, times weights, to C columns of NV vectors of rows, one key after another:
/// acc[i][...] += sum_j weights[j][...] * values[i][j], where j counts words of keys.
///   weights [words][kGroupRows]   values [C][stride]   acc [C][kGroupRows]
template <class T, int C, int NV>
__attribute__((noinline)) void value_block(const T* weights, const T* values, int stride, int words, Number<T>* acc) {
  constexpr int n = kLanes<T>, row = kGroupRows<T>;
  Vec<Number<T>> c[C][NV];
#pragma GCC unroll 8
  for (int i = 0; i < C; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < NV; ++v) c[i][v] = load<Vec<Number<T>>>(acc + i * row + v * n);
  add_column_products<T, row, C, NV>(weights, values, stride, words, c);
#pragma GCC unroll 8
  for (int i = 0; i < C; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < NV; ++v) store(acc + i * row + v * n, c[i][v]);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
