// The functions here take the scores of a vector of rows, in base 2, and return weights 2^(score - m + bias) of a
// running softmax. Other files call the next paragraph "rule K".
//
// m is an even integer, at least the row's largest score so far, and the mantissa of a weight is computed from the
// score alone (exp2.hpp). So rescaling by 2^(m_old - m_new) is exact, and it does not matter when or how often m rises.
// Keys are added one after another, so a row's sums have the same bits however its keys were cut into tiles and calls.
// If a score raises m, m is set at least kHeadroom = 16 above this score. The weights so far are then at most
// 2^(bias - 16), and later weights at most 2^bias. So with bias = 0, the sum of 65,536 equal weights times the largest
// values is still finite.
//
// In float, weights below 2^-126 become 0. m decides which weights these are, and when m rises depends on how keys were
// cut. Keys with such weights matter if the values of all other keys are 0. So weights are multiplied by 2^bias; see
// reproducible_exponent_bias.
#pragma once

#include "annulus/kernels/host/exp2.hpp"
#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/pairs.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

template <class T>
constexpr T kInfinity = T(__builtin_inf());
template <class T>
constexpr T kLargest = sizeof(T) == 8 ? T(__DBL_MAX__) : T(__FLT_MAX__);
constexpr int kHeadroom = 16, kHalfHeadroom = 8;

/// Returns the smallest even integer >= x, plus the headroom. From 2^24 on every float is itself an even integer; from
/// 2^29 on the headroom is lost in rounding.
ANNULUS_INLINE float maximum_for(float x) { return 2 * __builtin_ceilf(x / 2) + kHeadroom; }
ANNULUS_INLINE double maximum_for(double x) { return 2 * __builtin_ceil(x / 2) + kHeadroom; }

/// A vector of rows of QueryPanels: m, sums and accumulators.
template <class T>
struct RunningRows {
  T* max;
  T* sum;
  T* score_sum;  // null: not wanted
  T* acc;        // [columns][kGroupRows], from the first row of the vector on
  int columns;
};

/// Brings one number of each row to the scale of the new m. Multiplies twice by the row's `step`, because the factor
/// 2^(m_old - m_new) = step^2 may be too small for a T if the exponent has a bias. Rows with step 1 keep their bits.
template <class T>
ANNULUS_INLINE void rescale(T* numbers, Vec<T> step) {
  const Vec<T> x = load<Vec<T>>(numbers);
  store(numbers, step < broadcast(T(1)) ? x * step * step : x);
}

/// Raises m of the rows whose largest score `most` is above m, or below m by less than half of the headroom, and brings
/// their sums and accumulators to the new scale. So rows whose scores grow key after key get a new m together (ALiBi:
/// in descending order, keys after the query come nearer to the query). If m rose only when a score is above m, m of
/// some row would rise in nearly every strip. For example, with a slope of 0.01 (base 2), m of one row rises once in 17
/// strips, but a group has 48 rows.
template <class T>
void raise_maxima(const RunningRows<T>& rows, const T* most) {
  alignas(kVectorBytes) T lower[kLanes<T>];
  for (int i = 0; i < kLanes<T>; ++i) {
    const T before = rows.max[i];
    lower[i] = 0;
    if (!(most[i] > before - kHalfHeadroom)) continue;
    const T now = maximum_for(most[i]) < kLargest<T> ? maximum_for(most[i]) : kLargest<T>;
    rows.max[i] = now;
    if (before > -kInfinity<T>) lower[i] = (before - now) / 2;  // the sums of an empty row are 0 on any scale
  }
  Vec<T> step[1] = {load<Vec<T>>(lower)};
  exp2_of<T>(step);
  rescale<T>(rows.sum, step[0]);
  if (rows.score_sum != nullptr) rescale<T>(rows.score_sum, step[0]);
  for (int column = 0; column < rows.columns; ++column) rescale<T>(rows.acc + column * kGroupRows<T>, step[0]);
}

/// Replaces scores that overflowed to +inf by the largest number, so that they all get the same weight instead of NaN.
template <class T>
void cut_infinite_scores(T* scores, int keys) {
  const Vec<T> largest = broadcast(kLargest<T>);
  for (int j = 0; j < keys; ++j, scores += kGroupRows<T>) {
    const Vec<T> x = load<Vec<T>>(scores);
    store(scores, x > largest ? largest : x);
  }
}

/// For a vector of rows: the sum of the weights, and the sum of weights times scores. Keys are added one after another.
template <class T>
struct Sums {
  Vec<T> weights;
  Vec<T> scores;
};

/// Turns scores of N keys into weights and adds the weights to `sums`. A key that a row does not see has score -inf and
/// so weight 0. `words` may be the memory of the scores, or lie before the scores.
template <class Word, int N, bool kEntropy, class T = Number<Word>>
ANNULUS_INLINE void weigh(const T* scores, Word* words, Vec<T> shift, Sums<T>& sums) {
  Vec<T> x[N], score[N];
  for (int j = 0; j < N; ++j) x[j] = load<Vec<T>>(scores + j * kGroupRows<T>);
  if constexpr (kEntropy) {
    for (int j = 0; j < N; ++j) score[j] = x[j] > -kInfinity<T> ? x[j] : Vec<T>{};
  }
  exp2_of<T>(x, shift);
  for (int j = 0; j < N; j += kPerWord<Word>) {
    Vec<T> weights[kPerWord<Word>];
    for (int i = 0; i < kPerWord<Word>; ++i) weights[i] = x[j + i];
    store(words + j / kPerWord<Word> * kGroupRows<T>, round_to_words<Word>(weights));
    for (int i = 0; i < kPerWord<Word>; ++i) x[j + i] = weights[i];
  }
  for (int j = 0; j < N; ++j) sums.weights += x[j];
  if constexpr (kEntropy) {
    for (int j = 0; j < N; ++j) accumulate(sums.scores, x[j], score[j]);
  }
}

/// Returns the shift of weights 2^(score - shift): m - bias, or m if m - bias would be rounded down, because weights
/// could then become infinite. (From |m| = 2^30 on, neighbouring floats differ by more than a bias of 64.)
template <class T>
ANNULUS_INLINE Vec<T> shift_of(Vec<T> max, T bias) {
  const Vec<T> shift = max - broadcast(bias);
  return max - shift > broadcast(bias) ? max : shift;
}

/// Raises m where necessary, then turns the scores of `keys` keys, which fill whole words, into weights. `most` has the
/// largest score of each row.
///   scores [keys][kGroupRows], of which this call handles one vector of rows
///   words  [keys / kPerWord][kGroupRows], in the memory of the scores or before the scores
template <class Word, bool kEntropy, class T = Number<Word>>
ANNULUS_INLINE void weigh_rows(const RunningRows<T>& rows, T* scores, Word* words, int keys, Vec<T> most, T bias) {
  constexpr int at_once = kVectorRegisters == 32 ? 2 : 4;
  if (any_above(most, load<Vec<T>>(rows.max) - broadcast(T(kHalfHeadroom)))) {
    if (any_above(most, broadcast(kLargest<T>))) cut_infinite_scores(scores, keys);
    alignas(kVectorBytes) T lanes[kLanes<T>];
    store(lanes, most);
    raise_maxima(rows, lanes);
  }
  const Vec<T> max = load<Vec<T>>(rows.max);
  const Vec<T> shift = max > -kInfinity<T> ? shift_of<T>(max, bias) : Vec<T>{};  // all scores are -inf: weights are 0
  Sums<T> sums{load<Vec<T>>(rows.sum), {}};
  if constexpr (kEntropy) sums.scores = load<Vec<T>>(rows.score_sum);
  int j = 0;
  constexpr int each = kPerWord<Word>, row = kGroupRows<T>;
  for (; j + at_once <= keys; j += at_once)
    weigh<Word, at_once, kEntropy>(scores + j * row, words + j / each * row, shift, sums);
  for (; j < keys; j += each) weigh<Word, each, kEntropy>(scores + j * row, words + j / each * row, shift, sums);
  store(rows.sum, sums.weights);
  if constexpr (kEntropy) store(rows.score_sum, sums.scores);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
