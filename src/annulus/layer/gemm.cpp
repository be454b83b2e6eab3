#include "annulus/layer/gemm.hpp"

#include <KokkosBlas3_gemm.hpp>
#include <Kokkos_Core.hpp>

#include "annulus/core/error.hpp"

namespace annulus::layer {
namespace {

template <class Number>
using View =
    Kokkos::View<Number**, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;

/// The matrix as Kokkos sees it: the columns of one that has no gaps. (Of the last row the view claims the gap too,
/// which is not touched.)
template <class Number>
auto view_of(const Matrix& matrix) {
  const View<Number> rows(static_cast<Number*>(matrix.data), std::size_t(matrix.rows), std::size_t(matrix.stride));
  return Kokkos::subview(rows, Kokkos::ALL, Kokkos::make_pair(std::size_t(0), std::size_t(matrix.columns)));
}

template <class Number>
void multiply(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
              const Matrix& c) {
  const auto letter = [](Transposed transposed) { return transposed == Transposed::yes ? "T" : "N"; };
  KokkosBlas::gemm(letter(a_transposed), letter(b_transposed), Number(1), view_of<Number>(a), view_of<Number>(b),
                   Number(accumulate ? 1 : 0), view_of<Number>(c));
  Kokkos::DefaultExecutionSpace().fence();
}

}  // namespace

void gemm(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b, bool accumulate,
          const Matrix& c) {
  const bool at = a_transposed == Transposed::yes, bt = b_transposed == Transposed::yes;
  const Index summed = at ? a.rows : a.columns;
  core::require((at ? a.columns : a.rows) == c.rows && (bt ? b.rows : b.columns) == c.columns &&
                    (bt ? b.columns : b.rows) == summed && a.type == c.type && b.type == c.type,
                [] { return "matrices of a product do not fit"; });
  if (c.empty()) return;
  if (summed == 0) {
    if (!accumulate) fill(c, 0);
  } else if (c.type == core::DType::float64) {
    multiply<double>(a_transposed, b_transposed, a, b, accumulate, c);
  } else {
    multiply<float>(a_transposed, b_transposed, a, b, accumulate, c);
  }
}

}  // namespace annulus::layer
