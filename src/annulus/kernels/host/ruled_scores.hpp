// Changes blocks of scores by a rule (ruled_pairs.hpp), in one instruction set. The functions of block.hpp and
// backward_block.hpp call change() for their scores, with rows (forward) or keys (backward) across the lanes. Both
// passes do the same operations on a (row, key) pair, so its score has the same bits in both, however rows and keys
// were cut.
#pragma once

#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/ruled_pairs.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

// Coefficients of a polynomial that is about (2^r - 1) / r for r in [-1/2, 1/2]. It was interpolated at Chebyshev's
// points and has errors of 1.4e-8 (float) and 2.9e-17 (double). `rounder` is that of exp2.hpp. If |twice s| is `most`
// or more, tanh is rounded to 1 or -1.
template <class T>
struct ExpMinusOne;
template <>
struct ExpMinusOne<float> {
  static constexpr float of[] = {0.693147188f,    0.2402265076f,   0.05550357114f,
                                 0.009618082557f, 0.001339086336f, 0.0001545316315f};
  static constexpr float rounder = 0x1.8p23f, most = 30;
  static constexpr int mantissa = 23;
};
template <>
struct ExpMinusOne<double> {
  static constexpr double of[] = {0.693147180559945286,    0.240226506959100722,    0.0555041086648216248,
                                  0.00961812910762848035,  0.00133335581464064708,  0.000154035303933707342,
                                  1.52527338415567733e-05, 1.32154868087055627e-06, 1.01780570877339407e-07,
                                  7.05489730415549946e-09, 4.45581790833606449e-10, 2.57293241773623047e-11};
  static constexpr double rounder = 0x1.8p52, most = 60;
  static constexpr int mantissa = 52;
};

/// Replaces x[i] by tanh(z), where e^(2 z) = 2^(twice x[i]). tanh(z) is u / (u + 2) with u = e^(2 z) - 1. For twice
/// x[i] = n + r, n an integer, u is (2^r - 1) 2^n + (2^n - 1). No nearly equal numbers are subtracted, so small scores
/// keep all their digits.
template <class T, int N>
ANNULUS_INLINE void replace_by_tanh(T twice, Vec<T> (&x)[N]) {
  using Table = ExpMinusOne<T>;
  constexpr int count = sizeof(Table::of) / sizeof(T);
  const Vec<T> rounder = broadcast(Table::rounder), most = broadcast(Table::most);
  Vec<T> r[N], power[N], p[N];
  for (int i = 0; i < N; ++i) {
    const Vec<T> y = larger(-most, smaller(most, x[i] * twice));
    const Vec<T> n = y + rounder;
    r[i] = y - (n - rounder);
    power[i] = bits_as<Vec<T>>((bits_as<Vec<UnsignedOf<T>>>(n) << Table::mantissa) +
                               bits_as<Vec<UnsignedOf<T>>>(broadcast(T(1))));
    p[i] = broadcast(Table::of[count - 1]);
  }
#pragma GCC unroll 16
  for (int k = count - 2; k >= 0; --k)
    for (int i = 0; i < N; ++i) p[i] = fma(p[i], r[i], broadcast(Table::of[k]));
  for (int i = 0; i < N; ++i) {
    const Vec<T> u = fma(p[i] * r[i], power[i], power[i] - broadcast(T(1)));
    x[i] = u / (u + broadcast(T(2)));
  }
}

/// Returns a - b: the signed distance of positions along one axis.
template <class T>
ANNULUS_INLINE Vec<T> apart(Vec<IntOf<T>> a, Vec<IntOf<T>> b) {
  return __builtin_convertvector(a - b, Vec<T>);
}
template <class T>
ANNULUS_INLINE Vec<T> magnitude(Vec<T> x) {
  return bits_as<Vec<T>>(bits_as<Vec<UnsignedOf<T>>>(x) & ~bits_as<Vec<UnsignedOf<T>>>(broadcast(T(-0.0))));
}
/// Returns the length of (x, y).
template <class T>
ANNULUS_INLINE Vec<T> distance(Vec<T> x, Vec<T> y) {
  return square_root(fma(x, x, y * y));
}

/// No rule: scores stay as they are.
struct NoRule {
  static constexpr bool changes = false;
  ANNULUS_INLINE_MEMBER NoRule at(std::int64_t, int) const { return {}; }
};

/// A rule for blocks with rows across the lanes. A block has NV vectors of rows from number `row` on, and keys from
/// `key` on.
template <class T>
struct RuledRows {
  static constexpr bool changes = true;
  const RuledPairs<T>* pairs;
  int row;
  int key;

  ANNULUS_INLINE_MEMBER RuledRows at(std::int64_t of_row, int of_key) const {
    return {pairs, int(of_row), key + of_key};
  }

  /// True if the bias alone raises scores of the first row by more than 1 (base 2) over the next `keys` keys, because
  /// these keys come nearer. Then the row's maximum may have to rise. If this guess is wrong, it costs only time.
  ANNULUS_INLINE_MEMBER bool likely_grows(int keys) const {
    return pairs->slopes != nullptr && pairs->slopes[row] * (distance_to(key) - distance_to(key + keys - 1)) > 1;
  }

  template <int C, int NV>
  ANNULUS_INLINE_MEMBER void change(Vec<T> (&c)[C][NV]) const {
    const RuledPairs<T>& all = *pairs;
    if (all.cap > 0) {
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j) {
        replace_by_tanh<T, NV>(all.twice, c[j]);
#pragma GCC unroll 3
        for (int v = 0; v < NV; ++v) c[j][v] *= broadcast(all.cap);
      }
    }
    if (all.slopes == nullptr) return;
    if (all.row_y != nullptr) {
      subtract_bias<true, C, NV>(c);
    } else {
      subtract_bias<false, C, NV>(c);
    }
  }

 private:
  /// Returns the distance of the first row from a key.
  ANNULUS_INLINE_MEMBER T distance_to(int other) const {
    const T x = T(pairs->row_x[row] - pairs->key_x[other]);
    const T y = pairs->row_y == nullptr ? T(0) : T(pairs->row_y[row] - pairs->key_y[other]);
    return T(__builtin_sqrt(x * x + y * y));
  }

  template <bool kPlane, int C, int NV>
  ANNULUS_INLINE_MEMBER void subtract_bias(Vec<T> (&c)[C][NV]) const {
    using Positions = Vec<IntOf<T>>;
    constexpr int n = kLanes<T>;
    const RuledPairs<T>& all = *pairs;
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      if (all.biased[key + j] == 0) continue;
      const Positions x = Positions{} + all.key_x[key + j];
#pragma GCC unroll 3
      for (int v = 0; v < NV; ++v) {
        const Vec<T> dx = apart<T>(load<Positions>(all.row_x + row + v * n), x);
        Vec<T> far = magnitude<T>(dx);
        if constexpr (kPlane) {
          const Positions y = Positions{} + all.key_y[key + j];
          far = distance<T>(dx, apart<T>(load<Positions>(all.row_y + row + v * n), y));
        }
        c[j][v] = fma(-load<Vec<T>>(all.slopes + row + v * n), far, c[j][v]);
      }
    }
  }
};

/// A rule for blocks with keys across the lanes. A block has MR rows from number `row` on, and vectors of keys from
/// `key` on.
///   derivatives  [MR][kStripStride]   change() sets them to 1 - tanh^2, for gradients; null without cap or gradients
template <class T>
struct RuledKeys {
  static constexpr bool changes = true;
  const RuledPairs<T>* pairs;
  T* derivatives;
  int row;
  int key;

  ANNULUS_INLINE_MEMBER RuledKeys at(int of_row, int of_key) const { return {pairs, derivatives, of_row, of_key}; }

  /// Changes the scores of row number i of the block.
  template <int NV>
  ANNULUS_INLINE_MEMBER void change(int i, int stride, Vec<T> (&x)[NV]) const {
    constexpr int n = kLanes<T>;
    const RuledPairs<T>& all = *pairs;
    if (all.cap > 0) {
      replace_by_tanh<T, NV>(all.twice, x);
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) {
        if (derivatives != nullptr) store(derivatives + i * stride + v * n, fma(-x[v], x[v], broadcast(T(1))));
        x[v] *= broadcast(all.cap);
      }
    }
    if (all.slopes == nullptr) return;
    if (all.row_y != nullptr) {
      subtract_bias<true, NV>(i, x);
    } else {
      subtract_bias<false, NV>(i, x);
    }
  }

  /// Turns the gradient of scores with cap and bias into the gradient of scale * q.k. `at` is the index at which
  /// change() stored the derivatives.
  ANNULUS_INLINE_MEMBER Vec<T> times_derivative(Vec<T> ds, int at) const {
    return derivatives == nullptr ? ds : ds * load<Vec<T>>(derivatives + at);
  }

 private:
  template <bool kPlane, int NV>
  ANNULUS_INLINE_MEMBER void subtract_bias(int i, Vec<T> (&c)[NV]) const {
    using Positions = Vec<IntOf<T>>;
    constexpr int n = kLanes<T>;
    const RuledPairs<T>& all = *pairs;
    const Positions x = Positions{} + all.row_x[row + i];
    const Vec<T> slope = broadcast(all.slopes[row + i]);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      const Vec<T> dx = apart<T>(x, load<Positions>(all.key_x + key + v * n));
      Vec<T> far = magnitude<T>(dx);
      if constexpr (kPlane) {
        const Positions y = Positions{} + all.row_y[row + i];
        far = distance<T>(dx, apart<T>(y, load<Positions>(all.key_y + key + v * n)));
      }
      c[v] = fma(-(slope * load<Vec<T>>(all.biased + key + v * n)), far, c[v]);
    }
  }
};

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
