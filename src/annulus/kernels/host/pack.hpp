// Packs rows of tensors, of any stride and storage type, into the panels that tiles read.
#pragma once

#include "annulus/kernels/host/convert.hpp"
#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/pairs.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

// A transposition takes one step for each of H = 1, 2, 4, ... A step exchanges the two off-diagonal H x H squares of
// every 2 H x 2 H square. For row i, called x, and row i + H, called y:
//   H = 1:  x0 x1 x2 x3      x0 y0 x2 y2        H = 2:  x0 x1 y0 y1
//           y0 y1 y2 y3  ->  x1 y1 x3 y3                x2 x3 y2 y3
template <int N, int H>
struct UpperOf {
  static constexpr int at(int lane) { return lane & H ? N + lane - H : lane; }
};
template <int N, int H>
struct LowerOf {
  static constexpr int at(int lane) { return lane & H ? N + lane : lane + H; }
};
template <class T, int H = 1>
ANNULUS_INLINE void transpose(Vec<T> (&a)[kLanes<T>]) {
  constexpr int n = kLanes<T>;
  if constexpr (H < n) {
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      if (i & H) continue;
      const Vec<T> x = a[i], y = a[i + H];
      a[i] = shuffle<UpperOf<n, H>, T>(x, y);
      a[i + H] = shuffle<LowerOf<n, H>, T>(x, y);
    }
    transpose<T, 2 * H>(a);
  }
}

/// Loads a whole vector of words from a row that has enough numbers. Pairs are loaded as they are in memory.
template <class T, class Storage>
ANNULUS_INLINE Vec<T> load_whole_words(const Storage* row) {
  if constexpr (kPerWord<T> == 1)
    return load_as<T>(row);
  else
    return load_unaligned<Vec<T>>(row);
}
/// Loads the first `count` numbers of `row` as pairs, then zeros.
ANNULUS_INLINE Pairs load_some_pairs(const BFloat16Bits* row, int count) {
  return bits_as<Pairs>(load_some<Shorts<2 * kLanes<float>>>(row, count));
}
/// Loads words w, w + 1, ... of a row, with zeros beyond head_dim.
template <class T, class Storage>
ANNULUS_INLINE Vec<T> load_words(const Storage* row, int w, int head_dim) {
  constexpr int numbers = kLanes<T> * kPerWord<T>;
  const int d = w * kPerWord<T>, rest = head_dim - d;
  if (rest >= numbers) return load_whole_words<T>(row + d);
  if constexpr (kPerWord<T> == 1)
    return load_some_as<T>(row + d, rest);
  else
    return load_some_pairs(row + d, rest);
}

/// Returns words times `factor`. Pairs are not multiplied, because their products take bfloat16 numbers as they are
/// stored.
template <class T>
ANNULUS_INLINE Vec<T> scaled(Vec<T> words, Number<T> factor) {
  if constexpr (kPerWord<T> == 1)
    return words * factor;
  else
    return words;
}

/// Loads words w, w + 1, ... of row i into a[i], then transposes: a[i] = word w + i of all rows. Words beyond head_dim
/// are zero.
template <class T, class Storage>
ANNULUS_INLINE void load_transposed(const void* const* rows, int w, int head_dim, Vec<T> (&a)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) a[i] = load_words<T>(static_cast<const Storage*>(rows[i]), w, head_dim);
  transpose<T>(a);
}

/// Prefetches the rows to be packed next, because rows of a comb lie far apart in memory.
template <class Storage>
ANNULUS_INLINE void prefetch_rows(const void* const* rows, int count, int head_dim) {
  for (int i = 0; i < count; ++i)
    for (int byte = 0; byte < head_dim * int(sizeof(Storage)); byte += 64)
      __builtin_prefetch(static_cast<const char*>(rows[i]) + byte, 0, 2);
}

/// Packs rows, kWidth of them side by side: [row / kWidth][word][kWidth]. Each row is padded with zeros to a multiple
/// of kDepthStep words.
template <class T, class Storage, int kWidth, int kDepthStep>
void pack_side_by_side(const void* const* rows, std::int64_t count, int head_dim, Number<T> factor, T* panels) {
  constexpr int n = kLanes<T>;
  const int depth = round_up(row_words<T>(head_dim), kDepthStep);
  for (std::int64_t first = 0; first < count; first += n) {
    if (first + 2 * n <= count) prefetch_rows<Storage>(rows + first + n, n, head_dim);
    T* panel = panels + first / kWidth * kWidth * depth + first % kWidth;
    for (int d = 0; d < depth; d += n) {
      Vec<T> a[n];
      load_transposed<T, Storage>(rows + first, d, head_dim, a);
      for (int i = 0; i < n && d + i < depth; ++i) store(panel + (d + i) * kWidth, scaled<T>(a[i], factor));
    }
  }
}

/// Multiplies rows by their factors and cuts them into slabs: [slab][capacity][NR words], zero beyond head_dim. Returns
/// whether all results are finite.
template <class T, class Storage>
bool pack_row_slabs(const void* const* rows, int count, int head_dim, int capacity,
                    const RowFactors<Number<T>>& factors, T* slabs) {
  constexpr int n = kLanes<T>, block = kKeyBlock<T>;
  constexpr int ahead = 8;
  const int depth = (head_dim + kPerWord<T> - 1) / kPerWord<T>;
  FiniteCheck<T> finite;
  for (int i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch_rows<Storage>(rows + i + ahead, 1, head_dim);
    const auto* row = static_cast<const Storage*>(rows[i]);
    const Number<T> factor = factors.of[i * factors.step];
    T* to = slabs + i * block;
    for (int d = 0; d < depth; d += block, to += std::int64_t(capacity) * block)
      for (int v = 0; v < block; v += n) {
        const Vec<T> words = scaled<T>(d + v < depth ? load_words<T>(row, d + v, head_dim) : Vec<T>{}, factor);
        finite.take(words);
        store(to + v, words);
      }
  }
  return finite.holds();
}

/// Returns pairs of the numbers d, d + 1, ... of two rows, zero beyond head_dim. Products add the number of `odd`
/// first.
ANNULUS_INLINE Pairs pair_up(const BFloat16Bits* odd, const BFloat16Bits* even, int d, int head_dim) {
  const int rest = d < head_dim ? head_dim - d : 0;
  return bits_as<Pairs>(load_some_as<float>(odd + d, rest)) | bits_as<Pairs>(load_some_as<float>(even + d, rest)) >> 16;
}

/// Makes one word of the two numbers that rows 2 i and 2 i + 1 have in a column. Cuts these words into slabs:
/// [slab][capacity][NR words], zero beyond head_dim and after the last row. Products add row 2 i first; with
/// `kDescending` they add row 2 i + 1 first. Returns whether all numbers are finite.
template <bool kDescending>
bool pack_pair_slabs(const void* const* rows, int count, int head_dim, int capacity, const RowFactors<float>&,
                     BFloat16Pair* slabs) {
  constexpr int n = kLanes<float>, block = kKeyBlock<float>, ahead = 8;
  static constexpr BFloat16Bits none[kMaxHeadDim] = {};
  FiniteCheck<BFloat16Pair> finite;
  for (int i = 0; i < count; i += 2) {
    if (i + ahead + 1 < count) prefetch_rows<BFloat16Bits>(rows + i + ahead, 2, head_dim);
    const auto* const first = static_cast<const BFloat16Bits*>(rows[i]);
    const auto* const second = i + 1 < count ? static_cast<const BFloat16Bits*>(rows[i + 1]) : none;
    BFloat16Pair* to = slabs + i / 2 * block;
    for (int d = 0; d < head_dim; d += block, to += std::int64_t(capacity) * block)
      for (int v = 0; v < block; v += n) {
        const Pairs words =
            kDescending ? pair_up(second, first, d + v, head_dim) : pair_up(first, second, d + v, head_dim);
        finite.take(words);
        store(to + v, words);
      }
  }
  return finite.holds();
}

/// Loads columns d, d + 1, ... as words. A word is a number of row i, or a pair of numbers of the rows 2 i and 2 i + 1,
/// where products add row 2 i first.
template <class T, class Storage>
ANNULUS_INLINE Vec<T> load_value_words(const void* const* rows, int i, int d, int head_dim) {
  if constexpr (kPerWord<T> == 1)
    return load_words<T>(static_cast<const Storage*>(rows[i]), d, head_dim);
  else
    return pair_up(static_cast<const Storage*>(rows[2 * i]), static_cast<const Storage*>(rows[2 * i + 1]), d, head_dim);
}

/// Turns rows of values into columns that are `capacity` words apart. Returns whether all numbers are finite.
template <class T, class Storage>
bool pack_values(const void* const* rows, int count, int head_dim, int capacity, T* values) {
  constexpr int n = kLanes<T>, at_once = n * kPerWord<T>;
  static constexpr Storage none[kMaxHeadDim] = {};
  const int columns = round_up(head_dim, kColumnStep);
  FiniteCheck<T> finite;
  for (int first = 0; first < count; first += at_once) {
    const void* some[at_once];
    for (int i = 0; i < at_once; ++i) some[i] = first + i < count ? rows[first + i] : none;
    if (first + 2 * at_once <= count) prefetch_rows<Storage>(rows + first + at_once, at_once, head_dim);
    T* const to = values + first / kPerWord<T>;
    for (int d = 0; d < columns; d += n) {
      Vec<T> a[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) a[i] = load_value_words<T, Storage>(some, i, d, head_dim);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) finite.take(a[i]);
      transpose<T>(a);
      for (int i = 0; i < n && d + i < columns; ++i) store(to + std::int64_t(d + i) * capacity, a[i]);
    }
  }
  return finite.holds();
}

/// Packs rows one after another; the last word of a row is padded with zeros.
template <class T, class Storage>
void pack_rows(const void* const* rows, int count, int head_dim, T* to) {
  constexpr int n = kLanes<T>, ahead = 8;
  const int depth = row_words<T>(head_dim), whole = head_dim / (n * kPerWord<T>)*n;
  for (int i = 0; i < count; ++i, to += depth) {
    if (i + ahead < count) prefetch_rows<Storage>(rows + i + ahead, 1, head_dim);
    const auto* row = static_cast<const Storage*>(rows[i]);
    for (int d = 0; d < whole; d += n) store_unaligned(to + d, load_whole_words<T>(row + d * kPerWord<T>));
    if (whole == depth) continue;
    const Vec<T> rest = load_words<T>(row, whole, head_dim);
    for (int d = whole; d < depth; ++d) to[d] = T{rest[d - whole]};
  }
}

/// Returns where row i of accumulators begins in [group][column][kGroup].
template <int kGroup, class Number>
ANNULUS_INLINE Number* group_row(Number* groups, std::int64_t i, int columns) {
  return groups + i / kGroup * kGroup * columns + i % kGroup;
}

template <class T, int kGroup = kGroupRows<T>, int kStep = kColumnStep>
void load_columns(const T* const* rows, std::int64_t count, std::int64_t padded, int head_dim, T* groups) {
  constexpr int n = kLanes<T>;
  static constexpr T none[kMaxHeadDim] = {};
  const int columns = round_up(head_dim, kStep);
  for (std::int64_t first = 0; first < padded; first += n) {
    const void* some[n];
    bool empty = true;
    for (int i = 0; i < n; ++i) {
      const T* const row = first + i < count ? rows[first + i] : nullptr;
      some[i] = row == nullptr ? none : row;
      empty &= row == nullptr;
    }
    for (std::int64_t next = first + n; next < first + 2 * n && next < count; ++next) {
      if (rows[next] != nullptr) prefetch_rows<T>(reinterpret_cast<const void* const*>(rows + next), 1, head_dim);
    }
    T* const to = group_row<kGroup>(groups, first, columns);
    for (int d = 0; d < columns; d += n) {
      Vec<T> a[n] = {};
      if (!empty) load_transposed<T, T>(some, d, head_dim, a);
      for (int i = 0; i < n && d + i < columns; ++i) store(to + (d + i) * kGroup, a[i]);
    }
  }
}

template <class T, int kGroup = kGroupRows<T>, int kStep = kColumnStep>
void store_columns(const T* groups, std::int64_t count, int head_dim, T* const* rows) {
  constexpr int n = kLanes<T>;
  const int columns = round_up(head_dim, kStep);
  for (std::int64_t first = 0; first < count; first += n) {
    const T* const from = group_row<kGroup>(groups, first, columns);
    for (std::int64_t next = first + n; next < first + 2 * n && next < count; ++next)
      for (int d = 0; d < head_dim; d += 64 / int(sizeof(T))) __builtin_prefetch(rows[next] + d, 1, 2);
    for (int d = 0; d < head_dim; d += n) {
      Vec<T> a[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) a[i] = d + i < columns ? load<Vec<T>>(from + (d + i) * kGroup) : Vec<T>{};
      transpose<T>(a);
      for (int i = 0; i < n && first + i < count; ++i) store_some(rows[first + i] + d, a[i], head_dim - d);
    }
  }
}

/// Returns where row i of accumulators begins in [block][slab][MR][NR]. The row's next slab begins MR * NR numbers
/// later.
template <class T, class Number>
ANNULUS_INLINE Number* block_row(Number* blocks, std::int64_t i, int head_dim) {
  return blocks + (i / kRowBlock * slab_count<T>(head_dim) * kRowBlock + i % kRowBlock) * kKeyBlock<T>;
}

template <class T>
void load_rows(const T* const* rows, std::int64_t count, std::int64_t padded, int head_dim, T* blocks) {
  constexpr int n = kLanes<T>, nr = kKeyBlock<T>, ahead = 8;
  const int columns = slab_count<T>(head_dim) * nr;
  for (std::int64_t i = 0; i < padded; ++i) {
    if (i + ahead < count) prefetch_rows<T>(reinterpret_cast<const void* const*>(rows + i + ahead), 1, head_dim);
    T* to = block_row<T>(blocks, i, head_dim);
    for (int d = 0; d < columns; d += n) {
      const int rest = i < count && d < head_dim ? head_dim - d : 0;
      store(to + d / nr * kRowBlock * nr + d % nr, rest > 0 ? load_some_as<T>(rows[i] + d, rest) : Vec<T>{});
    }
  }
}

template <class T>
void store_rows(const T* blocks, std::int64_t count, int head_dim, T* const* rows) {
  constexpr int n = kLanes<T>, nr = kKeyBlock<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const T* from = block_row<T>(blocks, i, head_dim);
    for (int d = 0; d < head_dim; d += n)
      store_some(rows[i] + d, load<Vec<T>>(from + d / nr * kRowBlock * nr + d % nr), head_dim - d);
  }
}

template <class T, class Storage>
T dot(const void* a, const void* b, int head_dim) {
  constexpr int n = kLanes<T>;
  const auto *x = static_cast<const Storage*>(a), *y = static_cast<const Storage*>(b);
  Vec<T> sum = {};
  for (int d = 0; d < head_dim; d += n)
    sum = fma(load_some_as<T>(x + d, head_dim - d), load_some_as<T>(y + d, head_dim - d), sum);
  T total = 0;
  for (int i = 0; i < n; ++i) total += sum[i];
  return total;
}

template <class T, class Storage>
void store_row(const T* acc, int head_dim, T factor, void* out) {
  constexpr int n = kLanes<T>;
  const Vec<T> zero{};
  auto* row = static_cast<Storage*>(out);
  int d = 0;
  for (; d + n <= head_dim; d += n) store_as<T>(row + d, load_unaligned<Vec<T>>(acc + d) * factor + zero);
  if (d == head_dim) return;
  Storage padded[n];
  store_as<T>(padded, load_some_as<T>(acc + d, head_dim - d) * factor + zero);
  for (int i = 0; d + i < head_dim; ++i) row[d + i] = padded[i];
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
