// Reads and writes numbers of a tensor whose type is known only at run time. Only kernels that do little but read and
// write memory should use these functions. In such kernels all threads take the same branch.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "annulus/core/storage.hpp"
#include "annulus/core/tensor_view.hpp"

namespace annulus::kernels {

/// Returns a / b for a >= 0, b > 0. Divides 32-bit numbers if a and b fit into them, because on a GPU a division of
/// 64-bit numbers takes several times as long.
KOKKOS_INLINE_FUNCTION core::Index quotient(core::Index a, core::Index b) {
  constexpr core::Index most = 0xffffffff;
  return a <= most && b <= most ? core::Index(std::uint32_t(a) / std::uint32_t(b)) : a / b;
}

/// Returns the index of element (batch, row, head, 0), counted in numbers from the start of the tensor's memory.
KOKKOS_INLINE_FUNCTION core::Index number_of(const core::TensorView& tensor, core::Index batch, core::Index row,
                                             core::Index head) {
  return batch * tensor.batch_stride + row * tensor.row_stride + head * tensor.head_stride;
}

/// Returns the address of element (batch, row, head, 0). For host code.
inline void* address(const core::TensorView& tensor, core::Index batch, core::Index row, core::Index head) {
  return static_cast<std::byte*>(tensor.data) +
         number_of(tensor, batch, row, head) * core::Index(core::bytes_of(tensor.type));
}

/// The addresses at which one head's rows of a batch entry begin, for loops over many rows. For host code.
struct EntryRows {
  EntryRows(const core::TensorView& tensor, core::Index batch, core::Index head)
      : first(static_cast<std::byte*>(address(tensor, batch, 0, head))),
        row_bytes(tensor.row_stride * core::Index(core::bytes_of(tensor.type))) {}
  void* at(core::Index row) const { return first + row * row_bytes; }

  std::byte* first;
  core::Index row_bytes;
};

/// Reads the tensor's number at index `at`, as a T.
template <class T>
KOKKOS_INLINE_FUNCTION T load_number(const core::TensorView& tensor, core::Index at) {
  switch (tensor.type) {
    case core::DType::float64:
      return core::load_as<T>(static_cast<const double*>(tensor.data)[at]);
    case core::DType::float32:
      return core::load_as<T>(static_cast<const float*>(tensor.data)[at]);
    case core::DType::float16:
      return core::load_as<T>(static_cast<const core::Half*>(tensor.data)[at]);
    case core::DType::bfloat16:
      return core::load_as<T>(static_cast<const core::BFloat16*>(tensor.data)[at]);
  }
  return T(0);
}

/// Stores x at index `at` of a tensor.
template <class T>
KOKKOS_INLINE_FUNCTION void store_number(const core::TensorView& tensor, core::Index at, T x) {
  switch (tensor.type) {
    case core::DType::float64:
      return core::store_as(static_cast<double*>(tensor.data)[at], x);
    case core::DType::float32:
      return core::store_as(static_cast<float*>(tensor.data)[at], x);
    case core::DType::float16:
      return core::store_as(static_cast<core::Half*>(tensor.data)[at], x);
    case core::DType::bfloat16:
      return core::store_as(static_cast<core::BFloat16*>(tensor.data)[at], x);
  }
}

}  // namespace annulus::kernels
