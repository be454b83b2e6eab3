// Describes a tensor in the memory of the default execution space by integers. A view owns no memory.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Element (b, row, head, d) lies at data[b * batch_stride + row * row_stride + head * head_stride + d]; strides count
/// elements of `type`. lse has no d: its element is (b, row, head).
struct TensorView {
  void* data = nullptr;
  DType type = DType::float32;
  Index batch_stride = 0;
  Index row_stride = 0;
  Index head_stride = 0;
};

/// Returns a view of a contiguous (B, rows, heads, D) tensor at `data`.
inline TensorView contiguous_view(void* data, DType type, Index rows, Index heads, Index head_dim) {
  return {data, type, rows * heads * head_dim, heads * head_dim, head_dim};
}

/// Returns a view of the same tensor without its first `row` rows.
inline TensorView from_row(TensorView view, Index row) {
  view.data = static_cast<std::byte*>(view.data) + row * view.row_stride * Index(bytes_of(view.type));
  return view;
}

/// Returns a view of the same tensor without its first `entry` batch entries.
inline TensorView from_entry(TensorView view, Index entry) {
  view.data = static_cast<std::byte*>(view.data) + entry * view.batch_stride * Index(bytes_of(view.type));
  return view;
}

}  // namespace annulus::core
