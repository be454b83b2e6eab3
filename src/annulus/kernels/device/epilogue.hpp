// What stands at the ends of the two passes, row by row: running softmax states to out, lse and normalizers; delta
// before, and sums to gradients after the backward teams.
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

/// Number `at`, in memory order, of B * rows * heads vectors.
struct VectorOf {
  Index at, batch, row, head;

  KOKKOS_FUNCTION VectorOf(Index at, Index rows, Index heads)
      : at(at), batch(at / heads / rows), row(at / heads % rows), head(at % heads) {}
  KOKKOS_FUNCTION Index in(const core::TensorView& tensor) const { return number_of(tensor, batch, row, head); }
};

/// A team takes vectors_per_team of the B * rows * heads vectors: body(vector, d) for their numbers, one thread each.
template <class ExecSpace, class Body>
struct VectorTeam {
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  static constexpr int vectors_per_team = 32;

  Body body;
  Index vectors, rows, heads;
  int head_dim;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const Index first = Index(team.league_rank()) * vectors_per_team;
    const int count = vectors - first < vectors_per_team ? int(vectors - first) : vectors_per_team;
    for_each_element(team, count, head_dim, [&](int i, int d) { body(VectorOf(first + i, rows, heads), d); });
  }
};

/// Runs it for shape.batch * rows * shape.heads vectors; complete on return.
template <class ExecSpace, class Body>
void for_each_number(const char* label, const core::Shape& shape, Index rows, int team_size, const Body& body) {
  using Team = VectorTeam<ExecSpace, Body>;
  const Team kernel{body, shape.batch * rows * shape.heads, rows, shape.heads, int(shape.head_dim)};
  const int teams = int(core::ceil_div(kernel.vectors, Team::vectors_per_team));
  if (teams == 0) return;
  Kokkos::parallel_for(label, typename Team::Policy(teams, team_size), kernel);
  ExecSpace().fence();
}

template <class T>
struct Finish {
  StatePointers<T> state;
  Index head_dim;
  Finished to;
  T output_scale;
  double exponent_bias;

  KOKKOS_FUNCTION void operator()(const VectorOf& vector, int d) const {
    const T l = state.l[vector.at];
    const bool empty = l == T(0);
    const T x = empty ? T(0) : output_scale * (state.acc[vector.at * head_dim + d] / l) + T(0);  // no -0
    store_number(to.out, vector.in(to.out) + d, x);
    if (d == 0) finish_row(vector);
  }

 private:
  /// ln(l 2^(m - bias)) and the normalizer, with l = f 2^e, 1 <= f < 2: they do not depend on how l and m share the
  /// scale.
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

/// finish() on ExecSpace, which must reach the default execution space's memory, with teams of `team_size` threads.
template <class ExecSpace>
void launch_finish(const State& state, const Finished& to, double output_scale, int team_size) {
  core::with_precision(state.precision, [&](auto number) {
    using T = decltype(number);
    for_each_number<ExecSpace>(
        "annulus::finish", state.shape, state.rows, team_size,
        Finish<T>{pointers_of<T>(state), state.shape.head_dim, to, T(output_scale), double(state.exponent_bias)});
  });
}

/// delta = dout.out - dlse. dlse.data = nullptr: zeros.
template <class T>
struct Delta {
  core::Shape shape;
  Index rows;
  core::TensorView out, dout, dlse, delta;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    const VectorOf vector(at, rows, shape.heads);
    T sum = 0;
    for (Index d = 0; d < shape.head_dim; ++d)
      sum += load_number<T>(dout, vector.in(dout) + d) * load_number<T>(out, vector.in(out) + d);
    if (dlse.data != nullptr) sum -= load_number<T>(dlse, vector.in(dlse));
    store_number(delta, vector.in(delta), sum);
  }
};

/// backward_delta() on ExecSpace, which must reach the default execution space's memory.
template <class ExecSpace>
void launch_delta(const core::Shape& shape, Index rows, const core::TensorView& out, const core::TensorView& dout,
                  const core::TensorView& dlse, const core::TensorView& delta) {
  const Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<Index>> all(0, shape.batch * rows * shape.heads);
  if (delta.type == core::DType::float64) {
    Kokkos::parallel_for("annulus::delta", all, Delta<double>{shape, rows, out, dout, dlse, delta});
  } else {
    Kokkos::parallel_for("annulus::delta", all, Delta<float>{shape, rows, out, dout, dlse, delta});
  }
  ExecSpace().fence();
}

/// to = unit * sums; they may be the same memory.
template <class T>
struct ScaleGradient {
  core::TensorView sums, to;
  T unit;

  KOKKOS_FUNCTION void operator()(const VectorOf& vector, int d) const {
    store_number(to, vector.in(to) + d, unit * load_number<T>(sums, vector.in(sums) + d));
  }
};

/// to = unit * sums, (B, rows, heads, D) both, on ExecSpace, which must reach the default execution space's memory,
/// with teams of `team_size` threads. `shape` gives B, heads and D.
template <class ExecSpace>
void launch_gradient(const core::Shape& shape, Index rows, const core::TensorView& sums, const core::TensorView& to,
                     double unit, int team_size) {
  const auto scale = [&](auto number) {
    using T = decltype(number);
    for_each_number<ExecSpace>("annulus::finish_gradient", shape, rows, team_size, ScaleGradient<T>{sums, to, T(unit)});
  };
  sums.type == core::DType::float64 ? scale(double{}) : scale(float{});
}

}  // namespace annulus::kernels::device
