// Running softmax states to outputs and log-sum-exps.
#pragma once

#include <Kokkos_Core.hpp>
#include <numbers>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/any_type.hpp"
#include "annulus/kernels/device/attend_team.hpp"
#include "annulus/kernels/device/team_tools.hpp"

namespace annulus::kernels::device {

/// A team finishes rows_per_team of the B * rows * heads states.
template <class ExecSpace, class T>
class FinishTeam {
 public:
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  static constexpr int rows_per_team = 32;

  StatePointers<T> state;
  Index states;  ///< B * rows * heads
  int head_dim;
  core::TensorView out;
  core::TensorView lse;
  T output_scale;
  double lift;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const Index first = Index(team.league_rank()) * rows_per_team;
    const int count = states - first < rows_per_team ? int(states - first) : rows_per_team;
    for_each_element(team, count, head_dim, [&](int i, int d) { finish_element(first + i, d); });
  }

 private:
  /// ln(l 2^m), with l = f 2^e, 1 <= f < 2: it does not depend on how l and m share the scale.
  KOKKOS_FUNCTION static double log_of_sum(double l, double m) {
    std::uint64_t bits;
    memcpy(&bits, &l, sizeof l);
    const double e = double(bits >> 52 & 0x7ff) - 1023;
    return (e + m) * std::numbers::ln2 + core::log(l * power_of_two(-e));
  }

  KOKKOS_FUNCTION void finish_element(Index at, int d) const {
    const Index head = at % state.heads;
    const Index row = at / state.heads % state.rows;
    const Index batch = at / state.heads / state.rows;
    const T l = state.l[at];
    const bool empty = l == T(0);
    const T x = empty ? T(0) : output_scale * (state.acc[at * head_dim + d] / l) + T(0);  // no -0
    store_number(out, batch * out.batch_stride + row * out.row_stride + head * out.head_stride + d, x);
    if (d > 0) return;
    const T natural = empty ? T(-INFINITY) : T(log_of_sum(double(l), double(state.m[at]) - lift));
    store_number(lse, batch * lse.batch_stride + row * lse.row_stride + head * lse.head_stride, natural);
  }
};

template <class ExecSpace, class T>
void team_finish_typed(const State& state, const core::TensorView& out, const core::TensorView& lse,
                       double output_scale, int team_size) {
  using Kernel = FinishTeam<ExecSpace, T>;
  Kernel kernel;
  kernel.state = {static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()), static_cast<T*>(state.acc.data()),
                  state.rows, state.shape.heads};
  kernel.states = state.shape.batch * state.rows * state.shape.heads;
  kernel.head_dim = int(state.shape.head_dim);
  kernel.out = out;
  kernel.lse = lse;
  kernel.output_scale = T(output_scale);
  kernel.lift = state.lift;
  const int teams = int(core::ceil_div(kernel.states, Kernel::rows_per_team));
  if (teams == 0) return;
  Kokkos::parallel_for("annulus::finish", typename Kernel::Policy(teams, team_size), kernel);
  ExecSpace().fence();
}

/// finish() on ExecSpace, which must reach the default execution space's memory, with teams of `team_size` threads.
template <class ExecSpace>
void team_finish(const State& state, const core::TensorView& out, const core::TensorView& lse, double output_scale,
                 int team_size) {
  if (state.precision == core::Precision::float64) {
    team_finish_typed<ExecSpace, double>(state, out, lse, output_scale, team_size);
  } else {
    team_finish_typed<ExecSpace, float>(state, out, lse, output_scale, team_size);
  }
}

}  // namespace annulus::kernels::device
