#include <Kokkos_Core.hpp>
#include <limits>
#include <utility>

#include "annulus/core/error.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/softmax.hpp"

namespace annulus::kernels {

using core::Index;

namespace {

/// m = -inf, l = 0, score_sum = 0. The accumulator is first written by the threads that work on the rows, and so into
/// the memory near them.
template <class T>
struct Clear {
  T* m;
  T* l;
  T* score_sum;  // or none
  T lowest;      // minus infinity; std:: functions are not for device code

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
  Kokkos::parallel_for("annulus::empty_state", Kokkos::RangePolicy<>(0, states), body);
  Kokkos::fence();
}

/// One (batch, row, head) of `from` goes into the same of `into`.
template <class T>
struct Merge {
  const T* from_m;
  const T* from_l;
  const T* from_score_sum;  // or none
  const T* from_acc;
  T* m;
  T* l;
  T* score_sum;
  T* acc;
  Index head_dim;

  /// 2^(by / 2), for an even integer by <= 0: 2^by itself may be too small for a number where the exponent is biased.
  KOKKOS_FUNCTION static T root(T by) { return device::power_of_two(by / 2); }

  KOKKOS_FUNCTION void operator()(const Index row) const {
    // Most rows of a sparse pass: their accumulators need not be looked at.
    if (from_l[row] == T(0)) return;
    if (l[row] == T(0)) {
      m[row] = from_m[row];
      l[row] = from_l[row];
      if (score_sum != nullptr) score_sum[row] = from_score_sum[row];
      for (Index at = row * head_dim; at < (row + 1) * head_dim; ++at) acc[at] = from_acc[at];
      return;
    }
    const T top = from_m[row] > m[row] ? from_m[row] : m[row];
    const T mine = root(m[row] - top), others = root(from_m[row] - top);
    m[row] = top;
    l[row] = l[row] * mine * mine + from_l[row] * others * others;
    if (score_sum != nullptr) score_sum[row] = score_sum[row] * mine * mine + from_score_sum[row] * others * others;
    for (Index at = row * head_dim; at < (row + 1) * head_dim; ++at)
      acc[at] = acc[at] * mine * mine + from_acc[at] * others * others;
  }
};

template <class T>
void merge(const State& from, State& into, Index states) {
  const Merge<T> body{static_cast<const T*>(from.m.data()),
                      static_cast<const T*>(from.l.data()),
                      static_cast<const T*>(from.score_sum.data()),
                      static_cast<const T*>(from.acc.data()),
                      static_cast<T*>(into.m.data()),
                      static_cast<T*>(into.l.data()),
                      static_cast<T*>(into.score_sum.data()),
                      static_cast<T*>(into.acc.data()),
                      into.shape.head_dim};
  Kokkos::parallel_for("annulus::merge_states", Kokkos::RangePolicy<>(0, states), body);
  Kokkos::fence();
}

Index states_of(const core::Shape& shape, Index rows) { return shape.batch * rows * shape.heads; }

}  // namespace

Index State::bytes(const core::Shape& shape, Index rows, core::Precision precision, bool entropy) {
  return states_of(shape, rows) * (shape.head_dim + 2 + Index(entropy)) * Index(core::bytes_of(precision));
}

Index State::acc_bytes(const core::Shape& shape, Index rows, core::Precision precision) {
  return states_of(shape, rows) * shape.head_dim * Index(core::bytes_of(precision));
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
  if (precision == core::Precision::float64) {
    clear_states<double>(*this, states);
  } else {
    clear_states<float>(*this, states);
  }
}

void merge_states(Backend, const State& from, State& into) {
  const auto same = [](const State& a, const State& b) {
    return a.shape.batch == b.shape.batch && a.rows == b.rows && a.shape.heads == b.shape.heads &&
           a.shape.head_dim == b.shape.head_dim && a.precision == b.precision && a.exponent_bias == b.exponent_bias &&
           a.score_sum.bytes() == b.score_sum.bytes();
  };
  core::require(same(from, into), [&] {
    const auto describe = [](const State& s) {
      return fmt::format("(B {}, rows {}, H {}, D {}, {}, exponent bias {}, {} entropy)", s.shape.batch, s.rows,
                         s.shape.heads, s.shape.head_dim, name_of(s.precision), s.exponent_bias,
                         s.score_sum.bytes() > 0 ? "with" : "no");
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
