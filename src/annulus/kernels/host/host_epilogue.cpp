// Computes, row by row on the host, what is needed before and after the passes: delta, results from softmax states, and
// gradients from sums.
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <limits>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/entropy.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/log_sums.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::TensorView;

namespace {

/// Calls visit(batch, row, head) for every batch entry, row and head. One thread takes all heads of a row. All calls
/// have ended on return.
template <class Visit>
void for_each_vector(const char* label, const core::Shape& shape, Index rows, const Visit& visit) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, shape.batch * rows), [&](const Index i) {
    for (Index h = 0; h < shape.heads; ++h) visit(i / rows, i % rows, h);
  });
  Space().fence();
}

/// Turns the softmax state of a row into its results.
template <class T>
struct FinishRow {
  const State& state;
  const Finished& to;
  T output_scale;
  void (*store_out)(const T* acc, int head_dim, T factor, void* out);

  /// Writes the results of (b, row, h). The state has index `from`, and element i of each array of `sums` belongs to
  /// the state's sum l.
  void operator()(Index from, Index b, Index row, Index h, const SplitSums& sums, int i) const {
    static constexpr T zeros[kMaxHeadDim] = {};  // acc of an empty state may hold anything
    const int bias = state.exponent_bias, value_dim = int(state.shape.dim_of_values());
    const T m = static_cast<const T*>(state.m.data())[from], l = static_cast<const T*>(state.l.data())[from];
    const bool empty = l == 0;
    const double log_sum = empty ? -std::numeric_limits<double>::infinity()
                                 : log_of_scaled(sums.e[i] + (double(m) - double(bias)), sums.log_f[i]);
    store_out(empty ? zeros : static_cast<const T*>(state.acc.data()) + from * value_dim, value_dim,
              empty ? T(0) : output_scale / l, address(to.out, b, row, h));
    store_number(to.lse, number_of(to.lse, b, row, h), log_sum);
    if (to.entropy.data != nullptr) {
      const T score_sum = static_cast<const T*>(state.score_sum.data())[from];
      store_number(to.entropy, number_of(to.entropy, b, row, h),
                   empty ? 0 : entropy_of(log_sum, double(score_sum), double(l)));
    }
    if (to.normalizers.data == nullptr) return;
    T* const normalizer = static_cast<T*>(address(to.normalizers, b, row, h));
    const Normalizer<T> made = empty ? no_normalizer<T>() : normalizer_of(m, sums.f[i], sums.e[i], bias);
    normalizer[0] = made.shift;
    normalizer[1] = made.factor;
  }
};

template <class T>
void finish_in(const State& state, const Finished& to, T output_scale, const TileFunctions<T>& tiles) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  const T* const l = static_cast<const T*>(state.l.data());
  const Index heads = state.shape.heads, rows = state.rows, states = state.shape.batch * rows * heads;
  const FinishRow<T> finish_row{state, to, output_scale, tiles.store_row[storage_index(to.out.type)]};
  const Index blocks = core::ceil_div(states, Index(SplitSums::most));
  Kokkos::parallel_for("annulus::finish", Kokkos::RangePolicy<Space>(0, blocks), [=](const Index block) {
    const Index first = block * SplitSums::most, end = std::min(first + SplitSums::most, states);
    SplitSums sums;
    split_sums(l + first, int(end - first), sums);
    Index h = first % heads, row = first / heads % rows, b = first / heads / rows;
    for (Index from = first; from < end; ++from) {
      finish_row(from, b, row, h, sums, int(from - first));
      if (++h < heads) continue;
      h = 0;
      if (++row < rows) continue;
      row = 0;
      ++b;
    }
  });
  Space().fence();
}

template <class T>
void delta_in(const core::Shape& shape, Index rows, const TensorView& out, const TensorView& dout,
              const TensorView& dlse, const TensorView& delta, const TileFunctions<T>& tiles) {
  const auto dot = tiles.dot[storage_index(out.type)];
  for_each_vector("annulus::backward_delta", shape, rows, [=, &shape](Index b, Index row, Index h) {
    T value = dot(address(dout, b, row, h), address(out, b, row, h), int(shape.dim_of_values()));
    if (dlse.data) value -= load_number<T>(dlse, number_of(dlse, b, row, h));
    *static_cast<T*>(address(delta, b, row, h)) = value;
  });
}

template <class T>
void finish_gradient_in(const core::Shape& shape, const TensorView& accumulator, const TensorView& to, T unit,
                        const TileFunctions<T>& tiles) {
  const auto store_row = tiles.store_row[storage_index(to.type)];
  for_each_vector("annulus::finish_gradient", shape, shape.sequence, [=, &shape](Index b, Index row, Index h) {
    store_row(static_cast<const T*>(address(accumulator, b, row, h)), int(shape.head_dim), unit,
              address(to, b, row, h));
  });
}

}  // namespace

void host_finish(const State& state, const Finished& to, double output_scale, InstructionSet set) {
  core::with_precision(state.precision, [&](auto number) {
    using T = decltype(number);
    finish_in<T>(state, to, T(output_scale), tiles_of<T>(set));
  });
}

void host_backward_delta(const core::Shape& shape, Index rows, const TensorView& out, const TensorView& dout,
                         const TensorView& dlse, const TensorView& delta, InstructionSet set) {
  core::require(out.type == dout.type, [&] {
    return fmt::format("out and dout are stored as {} and {}; expected one type", name_of(out.type),
                       name_of(dout.type));
  });
  if (delta.type == core::DType::float64) {
    delta_in(shape, rows, out, dout, dlse, delta, tiles_of<double>(set));
  } else {
    delta_in(shape, rows, out, dout, dlse, delta, tiles_of<float>(set));
  }
}

void host_finish_gradient(Gradient which, const core::Shape& shape, core::Precision precision,
                          const TensorView& accumulator, const TensorView& to, double scale, InstructionSet set) {
  const double unit_of_dk = precision == core::Precision::bfloat16 ? scale : std::numbers::ln2;
  const double unit = which == Gradient::dq ? scale : which == Gradient::dk ? unit_of_dk : 1;
  if (accumulator.type == core::DType::float64) {
    finish_gradient_in(shape, accumulator, to, unit, tiles_of<double>(set));
  } else {
    finish_gradient_in(shape, accumulator, to, float(unit), tiles_of<float>(set));
  }
}

}  // namespace annulus::kernels::host
