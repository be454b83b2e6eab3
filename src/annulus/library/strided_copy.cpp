#include "annulus/library/strided_copy.hpp"

#include <cstdint>

namespace annulus::library {
namespace {

/// Strides of a tensor as plain numbers, because device code cannot use std::array.
struct Steps {
  explicit Steps(const Tensor& of) : batch(of.strides[0]), row(of.strides[1]), head(of.strides[2]), d(of.strides[3]) {}
  Index batch, row, head, d;
};

/// Copies numbers as unsigned integers of their size; each iteration copies one (batch, row, head).
template <class Bits>
void copy_bits(const Tensor& from, const Tensor& to) {
  const auto* source = static_cast<const Bits*>(from.data);
  auto* target = static_cast<Bits*>(to.data);
  const Steps s(from), t(to);
  const Index rows = from.extents[1], heads = from.extents[2], dim = from.extents[3];
  const auto copy_row = KOKKOS_LAMBDA(const Index i) {
    const Index head = i % heads, row = i / heads % rows, batch = i / heads / rows;
    const Bits* x = source + batch * s.batch + row * s.row + head * s.head;
    Bits* y = target + batch * t.batch + row * t.row + head * t.head;
    for (Index d = 0; d < dim; ++d) y[d * t.d] = x[d * s.d];
  };
  using Range = Kokkos::RangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::IndexType<Index>>;
  Kokkos::parallel_for("annulus::copy", Range(0, from.extents[0] * rows * heads), copy_row);
  Kokkos::DefaultExecutionSpace().fence();
}

}  // namespace

void copy(const Tensor& from, const Tensor& to) {
  switch (core::bytes_of(from.type)) {
    case 8:
      return copy_bits<std::uint64_t>(from, to);
    case 4:
      return copy_bits<std::uint32_t>(from, to);
    default:
      return copy_bits<std::uint16_t>(from, to);
  }
}

bool is_contiguous(const Tensor& tensor) {
  Index expected = 1;
  for (std::size_t i = 4; i-- > 0;) {
    if (tensor.extents[i] > 1 && tensor.strides[i] != expected) return false;  // an extent of 1 may have any stride
    expected *= tensor.extents[i];
  }
  return true;
}

Index bytes_of(const Tensor& tensor) {
  const auto& e = tensor.extents;
  return e[0] * e[1] * e[2] * e[3] * Index(core::bytes_of(tensor.type));
}

}  // namespace annulus::library
