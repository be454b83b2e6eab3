// The work before and after the passes on the host, by row: softmax states to results, delta, sums to gradients.
#include <Kokkos_Core.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/entropy.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/numbers.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::TensorView;

namespace {

/// Calls visit(batch, row, head) for all; one thread does all heads of a row. Complete on return.
template <class Visit>
void for_each_vector(const char* label, const core::Shape& shape, Index rows, const Visit& visit) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, shape.batch * rows), [&](const Index i) {
    for (Index h = 0; h < shape.heads; ++h) visit(i / rows, i % rows, h);
  });
  Space().fence();
}

/// l = f 2^e, 1/sqrt(2) <= f < sqrt(2). Results made from f and m + e do not depend on how l and m divide the scale.
struct Split {
  explicit Split(double l) : f(std::frexp(l, &e)) {
    if (f >= std::numbers::sqrt2 / 2) return;
    f *= 2;
    --e;
  }
  int e = 0;
  double f;
};

template <class T>
void finish_in(const State& state, const Finished& to, T output_scale, const TileFunctions<T>& tiles) {
  const int bias = state.exponent_bias, value_dim = int(state.shape.dim_of_values());
  const T* m = static_cast<const T*>(state.m.data());
  const T* l = static_cast<const T*>(state.l.data());
  const T* score_sum = static_cast<const T*>(state.score_sum.data());
  const T* acc = static_cast<const T*>(state.acc.data());
  static constexpr T zeros[kMaxHeadDim] = {};  // acc of an empty state may hold anything
  const auto store_out = tiles.store_row[storage_index(to.out.type)];
  for_each_vector("annulus::finish", state.shape, state.rows, [=, &to](Index b, Index row, Index h) {
    const Index from = (b * state.rows + row) * state.shape.heads + h;
    const bool empty = l[from] == 0;
    const Split sum{double(l[from])};
    const double log_sum =
        empty ? -std::numeric_limits<double>::infinity()
              : std::fma(double(sum.e) + (double(m[from]) - double(bias)), std::numbers::ln2, std::log(sum.f));
    store_out(empty ? zeros : acc + from * value_dim, value_dim, empty ? T(0) : output_scale / l[from],
              address(to.out, b, row, h));
    store_number(to.lse, number_of(to.lse, b, row, h), log_sum);
    if (to.entropy.data != nullptr) {
      const double entropy = empty ? 0 : entropy_of(log_sum, double(score_sum[from]), double(l[from]));
      store_number(to.entropy, number_of(to.entropy, b, row, h), entropy);
    }
    if (to.normalizers.data == nullptr) return;
    T* const normalizer = static_cast<T*>(address(to.normalizers, b, row, h));
    const Normalizer<T> made = empty ? no_normalizer<T>() : normalizer_of(m[from], sum.f, sum.e, bias);
    normalizer[0] = made.shift;
    normalizer[1] = made.factor;
  });
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
