// The work before and after the two passes, row by row. After the forward pass, running softmax states become out, lse,
// entropy and normalizers. Before the backward pass, delta is computed. After the backward pass, sums become gradients.
#pragma once

#include <Kokkos_Core.hpp>
#include <numbers>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/blocks.hpp"
#include "annulus/kernels/device/forward_team.hpp"
#include "annulus/kernels/entropy.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels::device {

/// Batch entry, row and head of vector number `at` of a contiguous tensor (B, rows, heads, D).
struct VectorOf {
  Index at, batch, row, head;

  KOKKOS_FUNCTION VectorOf(Index at, Index rows, Index heads) : at(at) {
    const Index of_batch = quotient(at, heads);
    head = at - of_batch * heads;
    batch = quotient(of_batch, rows);
    row = of_batch - batch * rows;
  }
  KOKKOS_FUNCTION Index in(const core::TensorView& tensor) const { return number_of(tensor, batch, row, head); }
};

/// The numbers of a vector that one thread works on: first, first + step, first + 2 step, ... So neighbouring threads
/// touch neighbouring addresses.
struct ThreadNumbers {
  int first, step;
};

/// Returns how many threads work on one vector of `head_dim` numbers: one on hosts, and one per eight numbers on a GPU.
/// With one thread per number, the divisions with which a thread finds its vector would take too long.
template <class ExecSpace>
int threads_of_vector(Index head_dim) {
  using Memory = typename ExecSpace::memory_space;
  const bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
  return on_host ? 1 : int(core::ceil_div(head_dim, 8));
}

/// Calls body(vector, numbers) for the numbers of one vector that thread i works on.
template <class Body>
struct OfThread {
  Body body;
  Index rows, heads;
  int threads;  ///< per vector

  KOKKOS_FUNCTION void operator()(const Index i) const {
    const Index at = quotient(i, threads);
    body(VectorOf(at, rows, heads), ThreadNumbers{int(i - at * threads), threads});
  }
};

/// Calls body(vector, numbers) on all threads of `vectors` vectors (B, rows, heads); does not wait.
template <class ExecSpace, class Body>
void launch_numbers(const char* label, Index vectors, Index rows, Index heads, Index head_dim, const Body& body) {
  const int threads = threads_of_vector<ExecSpace>(head_dim);
  const Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<Index>> all(0, vectors * threads);
  Kokkos::parallel_for(label, all, OfThread<Body>{body, rows, heads, threads});
}

/// The same for shape.batch * rows * shape.heads vectors; complete on return.
template <class ExecSpace, class Body>
void for_each_number(const char* label, const core::Shape& shape, Index rows, const Body& body) {
  launch_numbers<ExecSpace>(label, shape.batch * rows * shape.heads, rows, shape.heads, shape.head_dim, body);
  ExecSpace().fence();
}

template <class T>
struct Finish {
  StatePointers<T> state;
  Index head_dim;
  Finished to;
  T output_scale;
  double exponent_bias;

  KOKKOS_FUNCTION void operator()(const VectorOf& vector, const ThreadNumbers& numbers) const {
    const T l = state.l[vector.at];
    const bool empty = l == T(0);
    const T* const acc = state.acc + vector.at * head_dim;
    const Index out = vector.in(to.out);
    for (Index d = numbers.first; d < head_dim; d += numbers.step)
      store_number(to.out, out + d, empty ? T(0) : output_scale * (acc[d] / l) + T(0));  // + 0 turns -0 into 0
    if (numbers.first == 0) finish_row(vector);
  }

 private:
  /// Writes lse = ln(l 2^(m - bias)), the entropy and the normalizer. With l = f 2^e, 1 <= f < 2, the bits of lse and
  /// normalizer depend on the product l 2^m only, not on l and m themselves.
  KOKKOS_FUNCTION void finish_row(const VectorOf& vector) const {
    const double l = double(state.l[vector.at]);
    const bool empty = l == 0;
    std::uint64_t bits;
    memcpy(&bits, &l, sizeof l);
    const double e = double(bits >> 52 & 0x7ff) - 1023, f = l * power_of_two(-e);
    const T m = state.m[vector.at];
    const double log_sum = empty ? -INFINITY : (e + (double(m) - exponent_bias)) * std::numbers::ln2 + core::log(f);
    store_number(to.lse, vector.in(to.lse), log_sum);
    if (to.entropy.data != nullptr) {
      const double entropy = empty ? 0 : entropy_of(log_sum, double(state.score_sum[vector.at]), l);
      store_number(to.entropy, vector.in(to.entropy), entropy);
    }
    if (to.normalizers.data == nullptr) return;
    const Normalizer<T> normalizer = empty ? no_normalizer<T>() : normalizer_of(m, f, e, exponent_bias);
    store_number(to.normalizers, vector.in(to.normalizers), normalizer.shift);
    store_number(to.normalizers, vector.in(to.normalizers) + 1, normalizer.factor);
  }
};

/// finish() on ExecSpace, which must have access to the default execution space's memory.
template <class ExecSpace>
void launch_finish(const State& state, const Finished& to, double output_scale) {
  core::with_precision(state.precision, [&](auto number) {
    using T = decltype(number);
    for_each_number<ExecSpace>(
        "annulus::finish", state.shape, state.rows,
        Finish<T>{pointers_of<T>(state), state.shape.head_dim, to, T(output_scale), double(state.exponent_bias)});
  });
}

/// delta = dout.out - dlse, where dlse counts as 0 if it has no data. The Kokkos lanes of a thread share one vector.
template <class ExecSpace, class T>
struct Delta {
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  static constexpr int lanes = 8;

  Index vectors, rows, heads, head_dim;
  core::TensorView out, dout, dlse, delta;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const Index at = Index(team.league_rank()) * team.team_size() + team.team_rank();
    if (at >= vectors) return;
    const VectorOf vector(at, rows, heads);
    const Index of_out = vector.in(out), of_dout = vector.in(dout);
    T sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, int(head_dim)),
        [&](const int d, T& part) { part += load_number<T>(dout, of_dout + d) * load_number<T>(out, of_out + d); },
        sum);
    Kokkos::single(Kokkos::PerThread(team), [&] {
      if (dlse.data != nullptr) sum -= load_number<T>(dlse, vector.in(dlse));
      store_number(delta, vector.in(delta), sum);
    });
  }
};

/// backward_delta() on ExecSpace, which must have access to the default execution space's memory.
template <class ExecSpace>
void launch_delta(const core::Shape& shape, Index rows, const core::TensorView& out, const core::TensorView& dout,
                  const core::TensorView& dlse, const core::TensorView& delta) {
  const auto launch = [&](auto number) {
    using Body = Delta<ExecSpace, decltype(number)>;
    const Index vectors = shape.batch * rows * shape.heads;
    const int team_size = threads_of_vector<ExecSpace>(shape.head_dim) > 1 ? 128 / Body::lanes : 1;
    const typename Body::Policy policy(int(core::ceil_div(vectors, team_size)), team_size, Body::lanes);
    Kokkos::parallel_for("annulus::delta", policy,
                         Body{vectors, rows, shape.heads, shape.head_dim, out, dout, dlse, delta});
  };
  if (shape.batch * rows * shape.heads == 0) return;
  delta.type == core::DType::float64 ? launch(double{}) : launch(float{});
  ExecSpace().fence();
}

/// to = unit * sums; `to` and `sums` may be the same memory.
template <class T>
struct ScaleGradient {
  core::TensorView sums, to;
  Index head_dim;
  T unit;

  KOKKOS_FUNCTION void operator()(const VectorOf& vector, const ThreadNumbers& numbers) const {
    const Index from = vector.in(sums), into = vector.in(to);
    for (Index d = numbers.first; d < head_dim; d += numbers.step)
      store_number(to, into + d, unit * load_number<T>(sums, from + d));
  }
};

/// to = unit * sums, both (B, rows, heads, D), on ExecSpace, which must have access to the default execution space's
/// memory. `shape` gives B, heads and D.
template <class ExecSpace>
void launch_gradient(const core::Shape& shape, Index rows, const core::TensorView& sums, const core::TensorView& to,
                     double unit) {
  const auto scale = [&](auto number) {
    using T = decltype(number);
    for_each_number<ExecSpace>("annulus::finish_gradient", shape, rows,
                               ScaleGradient<T>{sums, to, shape.head_dim, T(unit)});
  };
  sums.type == core::DType::float64 ? scale(double{}) : scale(float{});
}

}  // namespace annulus::kernels::device
