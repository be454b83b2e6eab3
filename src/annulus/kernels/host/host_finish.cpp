// finish() on the host.
#include <Kokkos_Core.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "annulus/kernels/host/instruction_set.hpp"
#include "annulus/kernels/normalizer.hpp"

namespace annulus::kernels::host {

using core::Index;
using core::TensorView;

namespace {

void* address(const TensorView& view, Index element) {
  return static_cast<std::byte*>(view.data) + element * Index(core::bytes_of(view.type));
}

/// l = f 2^e, 1/sqrt(2) <= f < sqrt(2). What is made of f and m + e does not depend on how l and m share the scale.
struct Split {
  explicit Split(double l) : f(std::frexp(l, &e)) {
    if (f >= std::numbers::sqrt2 / 2) return;
    f *= 2;
    --e;
  }
  int e = 0;
  double f;
};

/// Of one (batch, row, head).
template <class T>
void store_normalizer(const Normalizer<T>& normalizer, void* to) {
  static_cast<T*>(to)[0] = normalizer.shift;
  static_cast<T*>(to)[1] = normalizer.factor;
}

template <class T>
void finish_in(const State& state, const Finished& result, T output_scale, const TileFunctions<T>& tiles) {
  const TensorView out = result.out, lse = result.lse, normalizers = result.normalizers;
  const Index heads = state.shape.heads, d = state.shape.head_dim;
  const int lift = state.lift;
  const T* m = static_cast<const T*>(state.m.data());
  const T* l = static_cast<const T*>(state.l.data());
  const T* acc = static_cast<const T*>(state.acc.data());
  static constexpr T zeros[kMaxHeadDim] = {};  // what is in acc of an empty state nobody knows
  const auto store_out = tiles.store_row[storage_index(out.type)];
  const bool wide_lse = lse.type == core::DType::float64;
  const auto finish_row = [=](const Index i) {
    const Index b = i / state.rows, row = i % state.rows;
    for (Index h = 0; h < heads; ++h) {
      const Index from = i * heads + h;
      const bool empty = l[from] == 0;
      const Split sum{double(l[from])};
      const double log_sum =
          empty ? -std::numeric_limits<double>::infinity()
                : std::fma(double(sum.e) + (double(m[from]) - double(lift)), std::numbers::ln2, std::log(sum.f));
      store_out(empty ? zeros : acc + from * d, int(d), empty ? T(0) : output_scale / l[from],
                address(out, b * out.batch_stride + row * out.row_stride + h * out.head_stride));
      void* const to = address(lse, b * lse.batch_stride + row * lse.row_stride + h * lse.head_stride);
      if (wide_lse) {
        *static_cast<double*>(to) = log_sum;
      } else {
        *static_cast<float*>(to) = float(log_sum);
      }
      if (normalizers.data == nullptr) continue;
      store_normalizer(empty ? no_normalizer<T>() : normalizer_of(m[from], sum.f, sum.e, lift),
                       address(normalizers, b * normalizers.batch_stride + row * normalizers.row_stride +
                                                h * normalizers.head_stride));
    }
  };
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for("annulus::finish", Kokkos::RangePolicy<Space>(0, state.shape.batch * state.rows), finish_row);
  Space().fence();
}

}  // namespace

void host_finish(const State& state, const Finished& to, double output_scale, InstructionSet set) {
  if (state.precision == core::Precision::float64) {
    finish_in<double>(state, to, output_scale, tiles_of<double>(set));
  } else {
    finish_in<float>(state, to, float(output_scale), tiles_of<float>(set));
  }
}

}  // namespace annulus::kernels::host
