// From rows in memory, whatever their stride and storage type, to the panels the tiles read.
#pragma once

#include "annulus/kernels/host/convert.hpp"
#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

// One step of a transposition exchanges the off-diagonal H x H squares of rows i and i + H:
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

/// a[i] = numbers d, d + 1, ... of row i, then transposed: a[i] = number d + i of all rows. Zero beyond head_dim.
template <class T, class Storage>
ANNULUS_INLINE void load_transposed(const void* const* rows, int d, int head_dim, Vec<T> (&a)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) a[i] = load_some_as<T>(static_cast<const Storage*>(rows[i]) + d, head_dim - d);
  transpose<T>(a);
}

/// Rows of a comb lie far apart: the next ones are fetched while these are packed.
template <class Storage>
ANNULUS_INLINE void prefetch_rows(const void* const* rows, int count, int head_dim) {
  for (int i = 0; i < count; ++i)
    for (int byte = 0; byte < head_dim * int(sizeof(Storage)); byte += 64)
      __builtin_prefetch(static_cast<const char*>(rows[i]) + byte);
}

/// kWidth rows side by side.
template <class T, class Storage, int kWidth>
void pack_side_by_side(const void* const* rows, std::int64_t count, int head_dim, T factor, T* panels) {
  constexpr int n = kLanes<T>;
  const int depth = padded_depth<T>(head_dim);
  for (std::int64_t first = 0; first < count; first += n) {
    if (first + 2 * n <= count) prefetch_rows<Storage>(rows + first + n, n, head_dim);
    T* panel = panels + first / kWidth * kWidth * depth + first % kWidth;
    for (int d = 0; d < depth; d += n) {
      Vec<T> a[n];
      load_transposed<T, Storage>(rows + first, d, head_dim, a);
      for (int i = 0; i < n && d + i < depth; ++i) store(panel + (d + i) * kWidth, a[i] * factor);
    }
  }
}

/// Columns cut into slabs of NR side by side, zero beyond head_dim.
template <class T, class Storage>
void pack_slabs(const void* const* rows, int count, int head_dim, int capacity, const RowFactors<T>& factors,
                T* slabs) {
  constexpr int n = kLanes<T>, block = kKeyBlock<T>;
  constexpr int ahead = 8;
  for (int i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch_rows<Storage>(rows + i + ahead, 1, head_dim);
    const auto* row = static_cast<const Storage*>(rows[i]);
    const T factor = factors.of[i * factors.step];
    T* to = slabs + i * block;
    for (int d = 0; d < head_dim; d += block, to += std::int64_t(capacity) * block)
      for (int v = 0; v < block; v += n)
        store(to + v, load_some_as<T>(row + d + v, d + v < head_dim ? head_dim - d - v : 0) * factor);
  }
}

/// Rows as they are, one after another, padded with zeros to `depth` numbers each.
template <class T, class Storage>
void pack_rows(const void* const* rows, int count, int head_dim, T* to) {
  constexpr int n = kLanes<T>, ahead = 8;
  const int depth = padded_depth<T>(head_dim), whole = head_dim / n * n;
  for (int i = 0; i < count; ++i, to += depth) {
    if (i + ahead < count) prefetch_rows<Storage>(rows + i + ahead, 1, head_dim);
    const auto* row = static_cast<const Storage*>(rows[i]);
    for (int d = 0; d < whole; d += n) store_unaligned(to + d, load_as<T>(row + d));
    if (whole == depth) continue;
    const Vec<T> rest = load_some_as<T>(row + whole, head_dim - whole);
    for (int d = whole; d < depth; ++d) to[d] = rest[d - whole];
  }
}

/// Row i of accumulators in blocks [block][slab][MR][NR]; further slabs lie MR * NR numbers on.
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
    for (int d = 0; d < head_dim; d += n) {
      const T* part = from + d / nr * kRowBlock * nr + d % nr;
      if (d + n <= head_dim) {
        store_unaligned(rows[i] + d, load<Vec<T>>(part));
      } else {
        for (int j = 0; d + j < head_dim; ++j) rows[i][d + j] = part[j];
      }
    }
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
