// One matrix product A B, blocked for registers, serves all five products of the backward pass. Registers keep a block
// of sums: MR (kRowBlock) rows of NV vectors, where NV is 1 or 2. One outer product for each column k of A is added to
// these sums: each number of the column, broadcast to all lanes, is multiplied by row k of B. The five products differ
// only in where A is and in whether k ascends or descends. Strides, which are template arguments, say both.
//
// Functions that compute a block are never inlined. Otherwise GCC would keep numbers that are needed after the product
// (constants of exp2, addresses) in registers, and move sums to the stack, up to 30 times per 96 multiply-adds.
#pragma once

#include "annulus/kernels/host/exp2.hpp"
#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/pairs.hpp"
#include "annulus/kernels/host/ruled_scores.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// A block of sums. T is the type of the factors' words (words.hpp): one number, or a pair of bfloat16 numbers.
template <class T, int NV>
using Block = Vec<Number<T>>[kRowBlock][NV];

/// Adds one outer product: c[i][...] += A(i) * B, where A(i) = a[i * kRow], and B is the NV vectors at b.
template <int kRow, class T, int NV>
ANNULUS_INLINE void add_product(const T* a, const T* b, Vec<Number<T>> (&c)[kRowBlock][NV]) {
  Vec<T> row[NV];
#pragma GCC unroll 2
  for (int v = 0; v < NV; ++v) row[v] = load<Vec<T>>(b + v * kLanes<T>);
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i) {
    const Vec<T> x = broadcast(a[i * kRow]);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) multiply_add<T>(c[i][v], x, row[v]);
  }
}

/// Adds `count` outer products, k = 0, 1, ...: c[i][...] += A(i, k) * B(k), where A(i, k) = a[i * kRow + k * kStep],
/// and B(k) is the NV vectors at b + k * kNext. `count` is a multiple of kUnroll.
template <int kRow, int kStep, int kNext, class T, int NV>
ANNULUS_INLINE void add_products(const T* a, const T* b, int count, Vec<Number<T>> (&c)[kRowBlock][NV]) {
  for (int k = 0; k < count; k += kUnroll<T>, a += kStep * kUnroll<T>, b += kNext * kUnroll<T>) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll<T>; ++u) add_product<kRow, T, NV>(a + u * kStep, b + u * kNext, c);
  }
}

/// Multiplies MR rows of q (or dout), in the layout of QueryChunk, by a panel of keys (or values):
/// c[i][...] += sum_d rows[i][d] * panel[d][...], where d counts words and ascends. One loop runs over all slabs, so
/// that GCC keeps c in registers.
///   rows [slab][capacity][NR]; `rows` points to the first of the MR rows   panel [depth][NR]
template <class T, int NV>
ANNULUS_INLINE void row_times_panel(const T* rows, std::int64_t slab_stride, const T* panel, int depth,
                                    Block<T, NV>& c) {
  constexpr int nr = kKeyBlock<T>, step = kUnroll<T>;
  for (int d = step; d <= depth; d += step, panel += nr * step) {
#pragma GCC unroll 4
    for (int u = 0; u < step; ++u) add_product<nr, T, NV>(rows + u, panel + u * nr, c);
    rows += d % nr == 0 ? slab_stride - nr + step : step;
  }
}

template <class T, int NV>
ANNULUS_INLINE void load_block(const Number<T>* from, Block<T, NV>& c) {
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) c[i][v] = load<Vec<Number<T>>>(from + i * kKeyBlock<T> + v * kLanes<T>);
}
template <class T, int NV>
ANNULUS_INLINE void store_block(Number<T>* to, const Block<T, NV>& c) {
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) store(to + i * kKeyBlock<T> + v * kLanes<T>, c[i][v]);
}

/// The keys of a panel that each of MR rows sees. Row i sees the keys begin[i] ... end[i] - 1 of the chunk (ScoreRows);
/// `first` is the number of the panel's first key in the chunk.
struct PanelMask {
  const int* begin;
  const int* end;
  int first;

  /// Returns x (vector number v of the panel) for keys that row i sees, and 0 for other keys, whatever x is.
  template <class N>
  ANNULUS_INLINE_MEMBER Vec<N> only(int i, int v, Vec<N> x) const {
    const Vec<IntOf<N>> key = count_up<N>() + IntOf<N>(first + v * kLanes<N>);
    const auto seen = (key >= IntOf<N>(begin[i])) & (key < IntOf<N>(end[i]));
    return seen ? x : Vec<N>{};
  }
};

/// Computes the weights E = 2^(S - shifts[i]) of MR rows for one panel. S is the score in base 2, changed by the rule
/// if there is one. Packed pairs do not contain scale * log2(e), so the sums of their products are multiplied by
/// `factor`, which is this number. With kMasked, keys that a row does not see get weight 0.
///   weights [MR][kStripStride]
template <class T, int NV, bool kMasked, class Rule>
__attribute__((noinline)) void weights_of_panel(const T* queries, int slab_stride, const T* keys, int depth,
                                                Number<T> factor, const Number<T>* shifts, const PanelMask& seen,
                                                Number<T>* weights, Rule rule) {
  using N = Number<T>;
  constexpr int n = kLanes<T>;
  Block<T, NV> c = {};
  row_times_panel<T, NV>(queries, slab_stride, keys, depth, c);
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i) {
    const Vec<N> shift = broadcast(shifts[i]);
    Vec<N> x[NV];
    if constexpr (Rule::changes) {
      for (int v = 0; kPerWord < T >> 1 && v < NV; ++v) c[i][v] *= broadcast(factor);
      rule.template change<NV>(i, kStripStride<T>, c[i]);
    }
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      if constexpr (kPerWord < T >> 1 && !Rule::changes) c[i][v] *= broadcast(factor);
      x[v] = c[i][v] - shift;
    }
    exp2_of<N>(x);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      store(weights + i * kStripStride<T> + v * n, kMasked ? seen.only<N>(i, v, x[v]) : x[v]);
    }
  }
}

/// Computes ds[i][...] = E * (dP - delta[i]) for one panel, times the derivative of a rule's cap. `weights` has E. dP
/// is the product of dout and values. E is P without the row's factor, which dout and delta contain instead
/// (QueryChunk). With kMasked, keys that a row does not see get 0.
///   weights, ds [MR][kStripStride]
template <class T, int NV, bool kMasked, class Rule>
__attribute__((noinline)) void score_gradient_block(const T* dout, int slab_stride, const T* values, int depth,
                                                    const T* delta, const T* weights, T* ds, const PanelMask& seen,
                                                    Rule rule) {
  constexpr int n = kLanes<T>, stride = kStripStride<T>;
  Block<T, NV> c = {};
  row_times_panel<T, NV>(dout, slab_stride, values, depth, c);
#pragma GCC unroll 16
  for (int i = 0; i < kRowBlock; ++i) {
    const Vec<T> delta_i = broadcast(delta[i]);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      Vec<T> ds_i = load<Vec<T>>(weights + i * stride + v * n) * (c[i][v] - delta_i);
      if constexpr (Rule::changes) ds_i = rule.times_derivative(ds_i, i * stride + v * n);
      store(ds + i * stride + v * n, kMasked ? seen.only<T>(i, v, ds_i) : ds_i);
    }
  }
}

/// Does the same for pairs, where dout and delta do not contain the row's factor. So this function computes
/// P = E * factors[i], then dS = P * (dP - delta[i]) from the unrounded P, and then rounds P and dS to bfloat16.
///   weights [MR][kStripStride]   p, ds [MR / 2][kStripStride]   ds_rows [MR][kStripStride]: dS again, in 16 bits
template <class T, int NV, bool kMasked, class Rule>
__attribute__((noinline)) void score_gradient_pairs(const T* dout, int slab_stride, const T* values, int depth,
                                                    const float* factors, const float* delta, const float* weights,
                                                    T* p, T* ds, std::uint16_t* ds_rows, const PanelMask& seen,
                                                    Rule rule) {
  constexpr int n = kLanes<T>, stride = kStripStride<T>;
  Block<T, NV> c = {};
  row_times_panel<T, NV>(dout, slab_stride, values, depth, c);
#pragma GCC unroll 8
  for (int i = 0; i < kRowBlock; i += 2) {
    const Floats factor[2] = {broadcast(factors[i]), broadcast(factors[i + 1])};
    const Floats delta_i[2] = {broadcast(delta[i]), broadcast(delta[i + 1])};
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      const Floats p0 = load<Floats>(weights + i * stride + v * n) * factor[0];
      const Floats p1 = load<Floats>(weights + (i + 1) * stride + v * n) * factor[1];
      Floats ds0 = p0 * (c[i][v] - delta_i[0]), ds1 = p1 * (c[i + 1][v] - delta_i[1]);
      if constexpr (Rule::changes) {
        ds0 = rule.times_derivative(ds0, i * stride + v * n);
        ds1 = rule.times_derivative(ds1, (i + 1) * stride + v * n);
      }
      const Rounded both(kMasked ? seen.only<float>(i, v, ds0) : ds0, kMasked ? seen.only<float>(i + 1, v, ds1) : ds1);
      store(p + i / 2 * stride + v * n, Rounded(p0, p1).pairs());
      store(ds + i / 2 * stride + v * n, both.pairs());
      both.store_rows(ds_rows + i * stride + v * n, ds_rows + (i + 1) * stride + v * n);
    }
  }
}

struct Range {
  int begin;
  int end;
};

/// Sums of dv (or dk) of some keys. If `begun` is null, each chunk is a block of rows, and the chunk's terms are added
/// to `sums`. Otherwise `begun` has the terms so far of an unfinished block of rows (GradientViews), and a chunk adds
/// its terms to `begun`. For keys in `ended`, `begun` is then added to `sums` and cleared.
template <class N>
struct KeySums {
  N* sums;
  N* begun;
  bool is_open;  // `begun` may be nonzero
  Range ended;   // all keys if `begun` is null, none if the block goes on; otherwise the keys its last row sees
};

/// Sets `terms`, NV vectors for each of MR keys, to their initial values: `begun` if is_open, otherwise 0.
template <class T, int MR, int NV>
ANNULUS_INLINE void begin_terms(const KeySums<Number<T>>& of, Vec<Number<T>> (&terms)[MR][NV]) {
  constexpr int nr = kKeyBlock<T>, n = kLanes<T>;
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) terms[i][v] = Vec<Number<T>>{};
  if (!of.is_open) return;
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) terms[i][v] = load<Vec<Number<T>>>(of.begun + i * nr + v * n);
}

/// Stores the terms after all rows of the chunk. Terms of keys in `ended` are added to `sums`, and `begun` is cleared
/// for these keys. Terms of other keys are kept in `begun`.
template <class T, int MR, int NV>
ANNULUS_INLINE void end_terms(const KeySums<Number<T>>& of, const Vec<Number<T>> (&terms)[MR][NV]) {
  using V = Vec<Number<T>>;
  constexpr int nr = kKeyBlock<T>, n = kLanes<T>;
  const bool all = of.ended.begin <= 0 && of.ended.end >= MR;
  if (all) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) store(of.sums + i * nr + v * n, load<V>(of.sums + i * nr + v * n) + terms[i][v]);
    if (!of.is_open) return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    const bool ends = i >= of.ended.begin && i < of.ended.end;
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      Number<T>* const sum = of.sums + i * nr + v * n;
      if (ends && !all) store(sum, load<V>(sum) + terms[i][v]);
      store(of.begun + i * nr + v * n, ends ? V{} : terms[i][v]);
    }
  }
}

/// Adds query rows, in ascending order, to one slab of dv (or dk) of MR keys: terms[i] += sum_u p[u][i] * b[u]. Here u
/// counts words of rows: a word belongs to one row, or to two if words are pairs.
///   p [words][kStripStride]; `p` points to the first of the MR keys   b [words][NR]   sums [MR][NR]
template <class T, int NV>
__attribute__((noinline)) void key_gradient_block(const T* p, const T* b, int words, const KeySums<Number<T>>& to) {
  Block<T, NV> terms;
  begin_terms<T>(to, terms);
  add_products<1, kStripStride<T>, kKeyBlock<T>>(p, b, words, terms);
  end_terms<T>(to, terms);
}

/// Adds keys, `count` words of them, to one slab of dq of MR rows: acc[i][...] += sum_j ds[i][j] * keys[j]. j counts
/// words and descends, because the canonical order of keys is descending (State).
///   ds [MR][kStripStride / kPerWord]   keys [count][NR]   acc [MR][NR]
template <class T, int NV>
__attribute__((noinline)) void query_gradient_block(const T* ds, const T* keys, int count, Number<T>* acc) {
  constexpr int nr = kKeyBlock<T>;
  Block<T, NV> c;
  load_block<T, NV>(acc, c);
  add_products<kStripStride<T> / kPerWord<T>, -1, -nr>(ds + count - 1, keys + std::int64_t(count - 1) * nr, count, c);
  store_block<T, NV>(acc, c);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
