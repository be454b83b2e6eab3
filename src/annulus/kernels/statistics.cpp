#include "annulus/kernels/statistics.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/backend.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels {

using core::Index;
using core::TensorView;

namespace {

template <class T>
struct ClearTop {
  T* weights;
  Index* rows;

  KOKKOS_FUNCTION void operator()(const Index i) const {
    weights[i] = 0;
    rows[i] = -1;
  }
};

template <class T>
struct FinishTop {
  const T* weights;
  Index* listed;
  TensorView normalizers, to;
  Index size, rows, heads;

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const Index list = i / size, row = list / heads;
    const Index normalizer = number_of(normalizers, row / rows, row % rows, list % heads);
    // The weight is read before the result is written, because `weights` and `to` may be the same memory.
    const T weight = weights[i] * load_number<T>(normalizers, normalizer + 1);
    store_number(to, i, weight);
    if (load_number<T>(to, i) == T(0)) listed[i] = -1;  // a narrower type has rounded it to 0
  }
};

Index lists_of(const core::Shape& shape, Index rows) { return shape.batch * rows * shape.heads; }

template <class Body>
void for_each_number(const char* label, Index count, const Body& body) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, count), body);
  Kokkos::DefaultExecutionSpace().fence();
}

}  // namespace

void attend_statistics(Backend backend, const core::WorkList& work, const core::Shape& shape, Index rows,
                       core::Precision precision, const StatisticOperands& operands, const StatisticViews& statistics,
                       const std::function<void()>& poll) {
  core::require(operands.q.type == operands.k.type, [&] {
    return fmt::format("q and k are stored as {} and {}; expected one type", name_of(operands.q.type),
                       name_of(operands.k.type));
  });
  check_products(backend, precision, operands.q.type);
  check_rule(backend, operands.rule);
  if (!work.empty()) functions_of(backend).attend_statistics(work, shape, rows, precision, operands, statistics, poll);
}

Index attend_statistics_bytes(Backend backend, const core::Shape& shape, Index rows, Index slots, Index pairs,
                              core::Precision precision) {
  return functions_of(backend).attend_statistics_bytes(shape, rows, slots, pairs, precision);
}

void clear_top(const core::Shape& shape, Index rows, core::Precision precision, const StatisticViews& statistics) {
  core::with_precision(precision, [&](auto number) {
    using T = decltype(number);
    for_each_number("annulus::clear_top", lists_of(shape, rows) * statistics.top_keys,
                    ClearTop<T>{static_cast<T*>(statistics.top_weights), statistics.top_rows});
  });
}

void finish_top(const core::Shape& shape, Index rows, core::Precision precision, const StatisticViews& statistics,
                const TensorView& normalizers, const TensorView& to) {
  core::with_precision(precision, [&](auto number) {
    using T = decltype(number);
    for_each_number("annulus::finish_top", lists_of(shape, rows) * statistics.top_keys,
                    FinishTop<T>{static_cast<const T*>(statistics.top_weights), statistics.top_rows, normalizers, to,
                                 statistics.top_keys, rows, shape.heads});
  });
}

}  // namespace annulus::kernels
