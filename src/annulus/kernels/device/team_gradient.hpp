// What comes before and after the backward teams: delta of every row, and accumulators to gradients.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/tensor_view.hpp"
#include "annulus/core/types.hpp"
#include "annulus/kernels/device/any_type.hpp"
#include "annulus/kernels/device/team_tools.hpp"

namespace annulus::kernels::device {

/// delta = dout.out - dlse of (batch, row, head) number `at`. dlse.data = nullptr: zeros.
template <class T>
struct DeltaOfRow {
  Index rows;
  Index heads;
  Index head_dim;
  core::TensorView out;
  core::TensorView dout;
  core::TensorView dlse;
  core::TensorView delta;

  KOKKOS_FUNCTION void operator()(const Index at) const {
    const Index head = at % heads, row = at / heads % rows, batch = at / heads / rows;
    const Index of_out = number_of(out, batch, row, head), of_dout = number_of(dout, batch, row, head);
    T sum = 0;
    for (Index d = 0; d < head_dim; ++d) sum += load_number<T>(dout, of_dout + d) * load_number<T>(out, of_out + d);
    if (dlse.data != nullptr) sum -= load_number<T>(dlse, number_of(dlse, batch, row, head));
    store_number(delta, number_of(delta, batch, row, head), sum);
  }
};

/// backward_delta() on ExecSpace, which must reach the default execution space's memory.
template <class ExecSpace>
void delta_of_rows(const core::Shape& shape, Index rows, const core::TensorView& out, const core::TensorView& dout,
                   const core::TensorView& dlse, const core::TensorView& delta) {
  const Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<Index>> all(0, shape.batch * rows * shape.heads);
  if (delta.type == core::DType::float64) {
    Kokkos::parallel_for("annulus::delta", all,
                         DeltaOfRow<double>{rows, shape.heads, shape.head_dim, out, dout, dlse, delta});
  } else {
    Kokkos::parallel_for("annulus::delta", all,
                         DeltaOfRow<float>{rows, shape.heads, shape.head_dim, out, dout, dlse, delta});
  }
  ExecSpace().fence();
}

/// A team finishes vectors_per_team of the B * rows * heads vectors: to = unit * accumulator. A number is read and
/// written by one thread, so the two may be the same memory.
template <class ExecSpace, class T>
class GradientTeam {
 public:
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  static constexpr int vectors_per_team = 32;

  Index vectors;
  Index rows;
  Index heads;
  int head_dim;
  core::TensorView accumulator;
  core::TensorView to;
  T unit;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& team) const {
    const Index first = Index(team.league_rank()) * vectors_per_team;
    const int count = vectors - first < vectors_per_team ? int(vectors - first) : vectors_per_team;
    for_each_element(team, count, head_dim, [&](int i, int d) {
      const Index at = first + i;
      const Index head = at % heads, row = at / heads % rows, batch = at / heads / rows;
      const T sum = static_cast<const T*>(accumulator.data)[number_of(accumulator, batch, row, head) + d];
      store_number(to, number_of(to, batch, row, head) + d, unit * sum);
    });
  }
};

template <class ExecSpace, class T>
void team_gradient_typed(core::Shape shape, Index rows, const core::TensorView& accumulator, const core::TensorView& to,
                         double unit, int team_size) {
  using Kernel = GradientTeam<ExecSpace, T>;
  const Index vectors = shape.batch * rows * shape.heads;
  const Kernel kernel{vectors, rows, shape.heads, int(shape.head_dim), accumulator, to, T(unit)};
  const int teams = int(core::ceil_div(vectors, Kernel::vectors_per_team));
  if (teams == 0) return;
  Kokkos::parallel_for("annulus::finish_gradient", typename Kernel::Policy(teams, team_size), kernel);
  ExecSpace().fence();
}

/// to = unit * accumulator, (B, rows, heads, D) both, on ExecSpace, which must reach the default execution space's
/// memory, with teams of `team_size` threads. `shape` gives B, heads and D.
template <class ExecSpace>
void team_gradient(const core::Shape& shape, Index rows, const core::TensorView& accumulator,
                   const core::TensorView& to, double unit, int team_size) {
  if (accumulator.type == core::DType::float64) {
    team_gradient_typed<ExecSpace, double>(shape, rows, accumulator, to, unit, team_size);
  } else {
    team_gradient_typed<ExecSpace, float>(shape, rows, accumulator, to, unit, team_size);
  }
}

}  // namespace annulus::kernels::device
