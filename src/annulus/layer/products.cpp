#include "annulus/layer/products.hpp"

#include <KokkosBlas3_gemm.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::layer {
namespace {

// Limit for the floating-point operations of one call of gemm(), unless least_rows needs more. This many operations
// take a second at 100 GFLOP/s, and two minutes without a BLAS. After each call this rank reports progress, so that
// ranks which wait for its messages do not consider it stalled.
constexpr double flops_at_once = 1e11;
constexpr Index least_rows = 128;  // every call reads all of b; with fewer rows of c per call, b is read too often

template <class Number>
using View =
    Kokkos::View<Number**, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;

/// The matrix as a Kokkos view: the first columns of a contiguous view whose rows have `stride` numbers. (The
/// contiguous view includes the gap after the last row, but nothing reads or writes this gap.)
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

Products::Products(core::DType arithmetic, std::function<void()> poll) : type_(arithmetic), poll_(std::move(poll)) {}

Matrix Products::Room::of(const Matrix& like, core::DType type) {
  const Index bytes = like.rows * like.columns * Index(core::bytes_of(type));
  if (buffer.bytes() < bytes) {
    buffer = {};  // frees the old memory before new memory is allocated
    buffer = core::Buffer("converted numbers", bytes);
  }
  return matrix_at(buffer.data(), type, like.rows, like.columns);
}

Matrix Products::converted(const Matrix& matrix, Room& room) const {
  if (matrix.type == type_) return matrix;
  const Matrix converted_copy = room.of(matrix, type_);
  copy(matrix, converted_copy);
  return converted_copy;
}

void Products::multiply(Transposed a_transposed, Transposed b_transposed, const Matrix& a, const Matrix& b,
                        bool accumulate, const Matrix& c) {
  const bool across = a_transposed == Transposed::yes;
  const Index summed = across ? a.rows : a.columns;
  // Divides the rows of c among several calls, because weights may be so large that one chunk takes minutes.
  const Index step =
      std::max(least_rows, Index(flops_at_once / std::max(1.0, 2.0 * double(c.columns) * double(summed))));
  for (Index begin = 0; begin < c.rows; begin += step) {
    const core::Interval rows{begin, std::min(c.rows, begin + step)};
    gemm(a_transposed, b_transposed, across ? a.take_columns(rows) : a.take_rows(rows), b, accumulate,
         c.take_rows(rows));
    comm::watchdog_progress();
  }
  metrics_.flops += 2.0 * double(c.rows) * double(c.columns) * double(summed);
}

template <class Work>
void Products::in_chunks(Index rows, Work&& work) {
  core::Span span("products");
  double polling = 0;
  for (Index begin = 0; begin < rows; begin += chunk_rows) {
    work(core::Interval{begin, std::min(rows, begin + chunk_rows)});
    if (!poll_) continue;
    const double before = core::wall_seconds();
    poll_();
    polling += core::wall_seconds() - before;
  }
  metrics_.seconds += span.close() - polling;
}

void Products::forward(const Matrix& x, const Matrix& w, const Matrix& bias, const Matrix& y) {
  const Matrix weight = converted(w, weight_);
  in_chunks(x.rows, [&](core::Interval rows) {
    const Matrix to = y.take_rows(rows), sums = to.type == type_ ? to : second_.of(to, type_);
    if (!bias.empty()) fill_rows(bias, sums);
    multiply(Transposed::no, Transposed::no, converted(x.take_rows(rows), first_), weight, !bias.empty(), sums);
    if (to.type != type_) copy(sums, to);
  });
}

void Products::input_gradient(const Matrix& dy, const Matrix& w, const Matrix& dx, bool accumulate) {
  const Matrix weight = converted(w, weight_);
  core::require(!accumulate || dx.type == type_, [] { return "sums of products are made in the arithmetic type"; });
  in_chunks(dy.rows, [&](core::Interval rows) {
    const Matrix to = dx.take_rows(rows), sums = to.type == type_ ? to : second_.of(to, type_);
    multiply(Transposed::no, Transposed::yes, converted(dy.take_rows(rows), first_), weight, accumulate, sums);
    if (to.type != type_) copy(sums, to);
  });
}

void Products::weight_gradient(const Matrix& x, const Matrix& dy, const Matrix& dw) {
  fill(dw, 0);
  in_chunks(x.rows, [&](core::Interval rows) {
    multiply(Transposed::yes, Transposed::no, converted(x.take_rows(rows), first_),
             converted(dy.take_rows(rows), second_), true, dw);
  });
}

void Products::bias_gradient(const Matrix& dy, const Matrix& db) {
  // The bias acts as a weight whose input is always 1, so its gradient is that of such a weight.
  core::Buffer owner;
  const Matrix ones = make_matrix(owner, "ones", type_, std::min(chunk_rows, dy.rows), 1);
  fill(ones, 1);
  fill(db, 0);
  in_chunks(dy.rows, [&](core::Interval rows) {
    multiply(Transposed::yes, Transposed::no, ones.take_rows({0, rows.size()}), converted(dy.take_rows(rows), second_),
             true, db);
  });
}

}  // namespace annulus::layer
