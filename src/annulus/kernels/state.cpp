#include <Kokkos_Core.hpp>
#include <limits>

#include "annulus/core/error.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

using core::Index;

namespace {

/// m = -inf, l = 0, acc = 0, written by the threads (and so into the memory near them) that will work on the rows.
template <class T>
struct Clear {
  T* m;
  T* l;
  T* acc;
  Index head_dim;
  T lowest;  // minus infinity; std:: functions are not for device code

  KOKKOS_FUNCTION void operator()(const Index row) const {
    m[row] = lowest;
    l[row] = 0;
    for (Index d = 0; d < head_dim; ++d) acc[row * head_dim + d] = 0;
  }
};

template <class T>
void clear(const State& state, Index states) {
  const Clear<T> body{static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()),
                      static_cast<T*>(state.acc.data()), state.shape.head_dim, -std::numeric_limits<T>::infinity()};
  Kokkos::parallel_for("annulus::empty_state", Kokkos::RangePolicy<>(0, states), body);
  Kokkos::fence();
}

Index states_of(const core::Shape& shape, Index rows) { return shape.batch * rows * shape.heads; }

}  // namespace

Index State::bytes(const core::Shape& shape, Index rows, core::Precision precision) {
  return states_of(shape, rows) * (shape.head_dim + 2) * Index(core::bytes_of(precision));
}

State::State(const core::Shape& shape, Index rows, core::Precision precision)
    : shape(shape), rows(rows), precision(precision) {
  const Index states = states_of(shape, rows), width = Index(core::bytes_of(precision));
  m = core::Buffer("state", states * width);
  l = core::Buffer("state", states * width);
  acc = core::Buffer("state", states * shape.head_dim * width);
  if (precision == core::Precision::float64) {
    clear<double>(*this, states);
  } else {
    clear<float>(*this, states);
  }
}

}  // namespace annulus::kernels
