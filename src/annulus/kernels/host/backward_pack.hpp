// Packing and row operations that only the backward pass needs; the rest is in pack.hpp.
#pragma once

#include "annulus/kernels/host/backward_functions.hpp"
#include "annulus/kernels/host/pack.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

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

/// Row i of accumulators in blocks [block][slab][MR][NR]; further slabs lie MR * NR numbers on.
template <class T, class Number>
ANNULUS_INLINE Number* block_row(Number* blocks, int i, int head_dim) {
  return blocks + (std::int64_t(i / kRowBlock) * slab_count<T>(head_dim) * kRowBlock + i % kRowBlock) * kKeyBlock<T>;
}

template <class T>
void load_rows(const T* const* rows, int count, int padded, int head_dim, T* blocks) {
  constexpr int n = kLanes<T>, nr = kKeyBlock<T>, ahead = 8;
  const int columns = slab_count<T>(head_dim) * nr;
  for (int i = 0; i < padded; ++i) {
    if (i + ahead < count) prefetch_rows<T>(reinterpret_cast<const void* const*>(rows + i + ahead), 1, head_dim);
    T* to = block_row<T>(blocks, i, head_dim);
    for (int d = 0; d < columns; d += n) {
      const int rest = i < count && d < head_dim ? head_dim - d : 0;
      store(to + d / nr * kRowBlock * nr + d % nr, rest > 0 ? load_some_as<T>(rows[i] + d, rest) : Vec<T>{});
    }
  }
}

template <class T>
void store_rows(const T* blocks, int count, int head_dim, T* const* rows) {
  constexpr int n = kLanes<T>, nr = kKeyBlock<T>;
  for (int i = 0; i < count; ++i) {
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

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
