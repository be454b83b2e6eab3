// Running softmax states to outputs, log-sum-exps and normalizers.
#pragma once

#include <Kokkos_Core.hpp>
#include <numbers>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/device/any_type.hpp"
#include "annulus/kernels/device/attend_team.hpp"
#include "annulus/kernels/device/team_tools.hpp"
#include "annulus/kernels/normalizer.hpp"

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
  Finished to;
  T output_scale;
  double lift;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const Index first = Index(team.league_rank()) * rows_per_team;
    const int count = states - first < rows_per_team ? int(states - first) : rows_per_team;
    for_each_element(team, count, head_dim, [&](int i, int d) { finish_element(first + i, d); });
  }

 private:
  /// ln(l 2^(m - lift)) and the normalizer, with l = f 2^e, 1 <= f < 2: they do not depend on how l and m share the
  /// scale.
  KOKKOS_FUNCTION void finish_row(Index at, Index batch, Index row, Index head) const {
    const double l = double(state.l[at]);
    const bool empty = l == 0;
    std::uint64_t bits;
    memcpy(&bits, &l, sizeof l);
    const double e = double(bits >> 52 & 0x7ff) - 1023, f = l * power_of_two(-e);
    const T m = state.m[at];
    store_number(to.lse, number_of(to.lse, batch, row, head),
                 empty ? T(-INFINITY) : T((e + (double(m) - lift)) * std::numbers::ln2 + core::log(f)));
    if (to.normalizers.data == nullptr) return;
    const Normalizer<T> normalizer = empty ? no_normalizer<T>() : normalizer_of(m, f, e, lift);
    const Index first = number_of(to.normalizers, batch, row, head);
    store_number(to.normalizers, first, normalizer.shift);
    store_number(to.normalizers, first + 1, normalizer.factor);
  }

  KOKKOS_FUNCTION void finish_element(Index at, int d) const {
    const Index head = at % state.heads;
    const Index row = at / state.heads % state.rows;
    const Index batch = at / state.heads / state.rows;
    const T l = state.l[at];
    const bool empty = l == T(0);
    const T x = empty ? T(0) : output_scale * (state.acc[at * head_dim + d] / l) + T(0);  // no -0
    store_number(to.out, number_of(to.out, batch, row, head) + d, x);
    if (d == 0) finish_row(at, batch, row, head);
  }
};

template <class ExecSpace, class T>
void team_finish_typed(const State& state, const Finished& to, double output_scale, int team_size) {
  using Kernel = FinishTeam<ExecSpace, T>;
  Kernel kernel;
  kernel.state = {static_cast<T*>(state.m.data()), static_cast<T*>(state.l.data()), static_cast<T*>(state.acc.data()),
                  state.rows, state.shape.heads};
  kernel.states = state.shape.batch * state.rows * state.shape.heads;
  kernel.head_dim = int(state.shape.head_dim);
  kernel.to = to;
  kernel.output_scale = T(output_scale);
  kernel.lift = state.lift;
  const int teams = int(core::ceil_div(kernel.states, Kernel::rows_per_team));
  if (teams == 0) return;
  Kokkos::parallel_for("annulus::finish", typename Kernel::Policy(teams, team_size), kernel);
  ExecSpace().fence();
}

/// finish() on ExecSpace, which must reach the default execution space's memory, with teams of `team_size` threads.
template <class ExecSpace>
void team_finish(const State& state, const Finished& to, double output_scale, int team_size) {
  if (state.precision == core::Precision::float64) {
    team_finish_typed<ExecSpace, double>(state, to, output_scale, team_size);
  } else {
    team_finish_typed<ExecSpace, float>(state, to, output_scale, team_size);
  }
}

}  // namespace annulus::kernels::device
