#include <Kokkos_Core.hpp>
#include <limits>

#include "annulus/core/error.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/team_softmax.hpp"

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

/// One (batch, row, head) of `from` goes into the same of `into`.
template <class T>
struct Merge {
  const T* from_m;
  const T* from_l;
  const T* from_acc;
  T* m;
  T* l;
  T* acc;
  Index head_dim;

  /// 2^(by / 2), for an even integer by <= 0: 2^by itself may be too small for a number where weights were lifted.
  KOKKOS_FUNCTION static T root(T by) { return device::power_of_two(by / 2); }

  KOKKOS_FUNCTION void operator()(const Index row) const {
    if (from_l[row] == T(0)) return;
    // An empty state is zero on any scale, so also on the other's.
    const T top = l[row] == T(0) || from_m[row] > m[row] ? from_m[row] : m[row];
    const T mine = l[row] == T(0) ? T(1) : root(m[row] - top), others = root(from_m[row] - top);
    m[row] = top;
    l[row] = l[row] * mine * mine + from_l[row] * others * others;
    for (Index at = row * head_dim; at < (row + 1) * head_dim; ++at)
      acc[at] = acc[at] * mine * mine + from_acc[at] * others * others;
  }
};

template <class T>
void merge(const State& from, State& into, Index states) {
  const Merge<T> body{static_cast<const T*>(from.m.data()),
                      static_cast<const T*>(from.l.data()),
                      static_cast<const T*>(from.acc.data()),
                      static_cast<T*>(into.m.data()),
                      static_cast<T*>(into.l.data()),
                      static_cast<T*>(into.acc.data()),
                      into.shape.head_dim};
  Kokkos::parallel_for("annulus::merge_states", Kokkos::RangePolicy<>(0, states), body);
  Kokkos::fence();
}

Index states_of(const core::Shape& shape, Index rows) { return shape.batch * rows * shape.heads; }

}  // namespace

Index State::bytes(const core::Shape& shape, Index rows, core::Precision precision) {
  return states_of(shape, rows) * (shape.head_dim + 2) * Index(core::bytes_of(precision));
}

State::State(const core::Shape& shape, Index rows, core::Precision precision, int lift)
    : shape(shape), rows(rows), precision(precision), lift(lift) {
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

void merge_states(Backend, const State& from, State& into) {
  const auto same = [](const State& a, const State& b) {
    return a.shape.batch == b.shape.batch && a.rows == b.rows && a.shape.heads == b.shape.heads &&
           a.shape.head_dim == b.shape.head_dim && a.precision == b.precision && a.lift == b.lift;
  };
  core::require(same(from, into), [&] {
    const auto describe = [](const State& s) {
      return fmt::format("(B {}, rows {}, H {}, D {}, {}, lift {})", s.shape.batch, s.rows, s.shape.heads,
                         s.shape.head_dim, name_of(s.precision), s.lift);
    };
    return fmt::format("cannot merge states {} into {}; expected the same", describe(from), describe(into));
  });
  const Index states = states_of(into.shape, into.rows);
  if (into.precision == core::Precision::float64) {
    merge<double>(from, into, states);
  } else {
    merge<float>(from, into, states);
  }
}

}  // namespace annulus::kernels
