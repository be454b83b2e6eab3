#include "annulus/library/strided_copy.hpp"

#include <cstdint>

namespace annulus::library {
namespace {

/// Numbers are copied as bits of their size, one (batch, row, head) after another.
template <class Bits>
void copy_bits(const Tensor& from, const Tensor& to) {
  const auto* source = static_cast<const Bits*>(from.data);
  auto* target = static_cast<Bits*>(to.data);
  const auto e = from.extents, s = from.strides, t = to.strides;
  const auto copy_row = KOKKOS_LAMBDA(const Index i) {
    const Index head = i % e[2], row = i / e[2] % e[1], batch = i / e[2] / e[1];
    const Bits* x = source + batch * s[0] + row * s[1] + head * s[2];
    Bits* y = target + batch * t[0] + row * t[1] + head * t[2];
    for (Index d = 0; d < e[3]; ++d) y[d * t[3]] = x[d * s[3]];
  };
  using Range = Kokkos::RangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::IndexType<Index>>;
  Kokkos::parallel_for("annulus::copy", Range(0, e[0] * e[1] * e[2]), copy_row);
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
    if (tensor.extents[i] > 1 && tensor.strides[i] != expected) return false;  // of one element strides mean nothing
    expected *= tensor.extents[i];
  }
  return true;
}

Index bytes_of(const Tensor& tensor) {
  const auto& e = tensor.extents;
  return e[0] * e[1] * e[2] * e[3] * Index(core::bytes_of(tensor.type));
}

}  // namespace annulus::library
