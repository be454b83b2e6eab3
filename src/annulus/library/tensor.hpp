// A caller's tensor, described by integers, for functions whose headers do not use Kokkos::View.
#pragma once

#include <Kokkos_Core.hpp>
#include <array>
#include <string>
#include <type_traits>

#include "annulus/core/storage.hpp"
#include "annulus/core/types.hpp"

namespace annulus {

using core::BFloat16;
using core::DType;
using core::Half;
using core::Index;

/// Element (b, row, head, d) of a tensor (B, rows, heads, D) is b * strides[0] + row * strides[1] + head * strides[2] +
/// d * strides[3] numbers after `data`, in memory that the default execution space can access. In tensors without d,
/// such as lse, D is 1. A Tensor does not own the memory. If `data` is null, there is no such tensor.
struct Tensor {
  void* data = nullptr;
  DType type = DType::float32;
  std::array<Index, 4> extents{};
  std::array<Index, 4> strides{};
  std::string label = {};  ///< the caller's name for the tensor, for messages; may be empty
};

/// Describes a tensor whose numbers are contiguous, and whose last index changes fastest.
inline Tensor contiguous(void* data, DType type, const std::array<Index, 4>& extents, std::string label = "") {
  const auto& [batch, rows, heads, dim] = extents;
  (void)batch;
  return {data, type, extents, {rows * heads * dim, heads * dim, dim, 1}, std::move(label)};
}

/// Returns the type in which numbers of a C++ type are stored: double, float, Half and BFloat16, and Kokkos' half_t and
/// bhalf_t if these have 16 bits (in builds without a GPU they are float).
template <class Number>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<Number, double>) return DType::float64;
  if constexpr (std::is_same_v<Number, float>) return DType::float32;
  if constexpr (std::is_same_v<Number, Half>) return DType::float16;
  if constexpr (std::is_same_v<Number, BFloat16>) return DType::bfloat16;
#if defined(KOKKOS_HALF_T_IS_FLOAT) && !KOKKOS_HALF_T_IS_FLOAT
  if constexpr (std::is_same_v<Number, Kokkos::Experimental::half_t>) return DType::float16;
#endif
#if defined(KOKKOS_BHALF_T_IS_FLOAT) && !KOKKOS_BHALF_T_IS_FLOAT
  if constexpr (std::is_same_v<Number, Kokkos::Experimental::bhalf_t>) return DType::bfloat16;
#endif
}

/// Describes a View (B, rows, heads, D), (B, rows, heads) or (heads), of any layout. The View must outlive the Tensor.
template <class View>
Tensor tensor(const View& view) {
  static_assert(View::Rank == 4 || View::Rank == 3 || View::Rank == 1,
                "annulus: a tensor is (B, rows, heads, D) or (B, rows, heads); sink logits are (heads)");
  static_assert(Kokkos::SpaceAccessibility<Kokkos::DefaultExecutionSpace, typename View::memory_space>::accessible,
                "annulus: the default execution space cannot reach this View's memory");
  using Number = typename View::non_const_value_type;
  static_assert(!std::is_void_v<decltype(dtype_of<Number>())>, "annulus: tensors cannot have this type");
  Tensor described{const_cast<Number*>(view.data()), dtype_of<Number>(), {1, 1, 1, 1}, {1, 1, 1, 1}, view.label()};
  constexpr unsigned first = View::Rank == 1 ? 2 : 0;
  for (unsigned i = 0; i < unsigned(View::Rank); ++i) {
    described.extents[first + i] = Index(view.extent(i));
    described.strides[first + i] = Index(view.stride(i));
  }
  return described;
}

/// Describes a View that the library writes. The View's numbers must not be const.
template <class View>
Tensor written(const View& view) {
  static_assert(!std::is_const_v<typename View::value_type>,
                "annulus: out, lse, dq, dk and dv are written; expected Views whose numbers are not const");
  return tensor(view);
}

}  // namespace annulus
