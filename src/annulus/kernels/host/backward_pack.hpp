// Packing and row operations that only the backward pass needs; the rest is in pack.hpp.
#pragma once

#include "annulus/kernels/host/pack.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

template <class T, class Storage>
void pack_slabs(const void* const* rows, int count, int head_dim, int capacity, T factor, T* slabs) {
  constexpr int n = kLanes<T>, block = kKeyBlock<T>;
  constexpr int ahead = 8;
  for (int i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch_rows<Storage>(rows + i + ahead, 1, head_dim);
    const auto* row = static_cast<const Storage*>(rows[i]);
    T* to = slabs + i * block;
    for (int d = 0; d < head_dim; d += block, to += std::int64_t(capacity) * block)
      for (int v = 0; v < block; v += n)
        store(to + v, load_some_as<T>(row + d + v, d + v < head_dim ? head_dim - d - v : 0) * factor);
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
