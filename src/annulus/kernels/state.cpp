#include <Kokkos_Core.hpp>
#include <limits>
#include <utility>

#include "annulus/core/error.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/softmax.hpp"

namespace annulus::kernels {

using core::Index;

namespace {

/// Sets m = -inf, l = 0 and score_sum = 0. The accumulator is not written here. The threads that work on its rows
/// should write to it first, because the operating system then puts the accumulator's pages into memory near these
/// threads.
template <class T>
struct Clear {
  T* m;
  T* l;
  T* score_sum;  // null: not wanted
  T lowest;      // minus infinity, a member because device code cannot call std:: functions

  KOKKOS_FUNCTION void operator()(const Index row) const {
    m[row] = lowest;
    l[row] = 0;
    if (score_sum != nullptr) score_sum[row] = 0;
  }
};

template <class T>
void clear_states(const State& state, Index states) {
  const Clear<T> body{static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()),
                      static_cast<T*>(state.score_sum.data()), -std::numeric_limits<T>::infinity()};
  Kokkos::parallel_for("annulus::empty_state", Kokkos::RangePolicy<Kokkos::IndexType<Index>>(0, states), body);
  Kokkos::DefaultExecutionSpace().fence();
}

Index states_of(const core::Shape& shape, Index rows) { return shape.batch * rows * shape.heads; }

}  // namespace

Index State::bytes(const core::Shape& shape, Index rows, core::Precision precision, bool entropy) {
  return states_of(shape, rows) * (shape.dim_of_values() + 2 + Index(entropy)) * Index(core::bytes_of(precision));
}

Index State::acc_bytes(const core::Shape& shape, Index rows, core::Precision precision) {
  return states_of(shape, rows) * shape.dim_of_values() * Index(core::bytes_of(precision));
}

State::State(const core::Shape& shape, Index rows, core::Precision precision, int exponent_bias, bool entropy)
    : State(shape, rows, precision, exponent_bias, entropy, core::Buffer("state", acc_bytes(shape, rows, precision))) {}

State::State(const core::Shape& shape, Index rows, core::Precision precision, int exponent_bias, bool entropy,
             core::Buffer memory)
    : shape(shape), rows(rows), precision(precision), exponent_bias(exponent_bias), acc(std::move(memory)) {
  core::require(acc.bytes() == acc_bytes(shape, rows, precision), [&] {
    return fmt::format("{} bytes for an accumulator; expected {}", acc.bytes(), acc_bytes(shape, rows, precision));
  });
  const Index each = states_of(shape, rows) * Index(core::bytes_of(precision));
  m = core::Buffer("state", each);
  l = core::Buffer("state", each);
  if (entropy) score_sum = core::Buffer("state", each);
  clear();
}

void State::clear() {
  const Index states = states_of(shape, rows);
  if (states == 0) return;  // a plan that asks what a GPU can do makes such a State before Kokkos starts
  if (precision == core::Precision::float64) {
    clear_states<double>(*this, states);
  } else {
    clear_states<float>(*this, states);
  }
}

}  // namespace annulus::kernels
