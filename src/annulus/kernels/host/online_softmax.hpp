// The running softmax of one row: base-2 scores in, weights 2^(score - m) out, m the running maximum.
//
// m is an even integer, so 2^(m_old - m_new) is a power of two and rescaling is exact whenever it happens. It lies
// kHeadroom above the largest score: weights are at most 2^-16, so that the sum of 65,536 equal weights times the
// largest values still is a number.
#pragma once

#include "annulus/kernels/host/exp2.hpp"
#include "annulus/kernels/host/layout.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

template <class T>
constexpr T kInfinity = T(__builtin_inf());
template <class T>
constexpr T kLargest = sizeof(T) == 8 ? T(__DBL_MAX__) : T(__FLT_MAX__);
constexpr int kHeadroom = 16;

/// Smallest even integer >= x, with the headroom on top. Beyond 2^25 every number of type T is an even integer itself
/// and the headroom is lost in rounding.
ANNULUS_INLINE float maximum_for(float x) { return 2 * __builtin_ceilf(x / 2) + kHeadroom; }
ANNULUS_INLINE double maximum_for(double x) { return 2 * __builtin_ceil(x / 2) + kHeadroom; }

/// Masks scores [begin, end) of a row from `limit` on and returns the lanes' maxima of the rest. begin and end are
/// whole vectors.
template <class T>
ANNULUS_INLINE Vec<T> mask_scores(T* row, int begin, int end, int limit) {
  constexpr int n = kLanes<T>;
  Vec<T> row_max = broadcast(-kInfinity<T>);
  for (int j = begin; j < end; j += n) {
    const auto seen = count_up<T>() < IntOf<T>(limit - j);
    const Vec<T> score = seen ? load<Vec<T>>(row + j) : broadcast(-kInfinity<T>);
    store(row + j, score);
    row_max = larger(score, row_max);
  }
  return row_max;
}

/// Scores that overflowed to +inf become the largest number, so that they share the row's weight instead of making NaN.
template <class T>
ANNULUS_INLINE void cut_infinite_scores(T* row, int end) {
  for (int j = 0; j < end; ++j) row[j] = row[j] > kLargest<T> ? kLargest<T> : row[j];
}

/// One row of QueryPanels: m, lanes of the sum, and the accumulator's first slab, further ones slab_stride on.
template <class T>
struct RunningRow {
  T* max;
  T* sum;
  T* acc;
  int slabs;
  int slab_stride;
};

/// Raises m above `score` and brings sum and accumulator to the new scale.
template <class T>
void raise_maximum(const RunningRow<T>& row, T score) {
  const T before = *row.max;
  *row.max = maximum_for(score) < kLargest<T> ? maximum_for(score) : kLargest<T>;
  if (before == -kInfinity<T>) return;  // empty: zero on any scale
  Vec<T> factor[1] = {broadcast(before - *row.max)};
  exp2_of<T>(factor);
  store(row.sum, load<Vec<T>>(row.sum) * factor[0]);
  for (int s = 0; s < row.slabs; ++s) {
    T* acc = row.acc + s * row.slab_stride;
    for (int j = 0; j < kKeyBlock<T>; j += kLanes<T>) store(acc + j, load<Vec<T>>(acc + j) * factor[0]);
  }
}

/// Scores [0, N vectors) of a row become weights, and the lanes of `sum` take them in.
template <class T, int N>
ANNULUS_INLINE void weigh(T* scores, Vec<T> max, Vec<T>& sum) {
  Vec<T> x[N];
  for (int i = 0; i < N; ++i) x[i] = load<Vec<T>>(scores + i * kLanes<T>) - max;
  exp2_of<T>(x);
  for (int i = 0; i < N; ++i) store(scores + i * kLanes<T>, x[i]);
  for (int i = 0; i < N; ++i) sum += x[i];
}

/// Scores [0, end) of a row, whole vectors with the lanes' maxima row_max, become weights.
template <class T>
ANNULUS_INLINE void weigh_row(const RunningRow<T>& row, T* scores, int end, Vec<T> row_max) {
  constexpr int n = kLanes<T>, at_once = kVectorRegisters == 32 ? 2 : 4;
  if (any_above(row_max, broadcast(*row.max))) {
    const T most = largest_lane<T>(row_max);
    if (most > kLargest<T>) cut_infinite_scores(scores, end);
    raise_maximum(row, most);
  }
  const Vec<T> max = broadcast(*row.max == -kInfinity<T> ? T(0) : *row.max);  // no key seen: every weight is 2^-inf
  Vec<T> sum = load<Vec<T>>(row.sum);
  int j = 0;
  for (; j + at_once * n <= end; j += at_once * n) weigh<T, at_once>(scores + j, max, sum);
  for (; j < end; j += n) weigh<T, 1>(scores + j, max, sum);
  store(row.sum, sum);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
