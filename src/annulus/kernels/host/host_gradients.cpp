// The row-wise ends of the backward pass on the host: delta before, units and rounding after.
#include <Kokkos_Core.hpp>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/instruction_set.hpp"
#include "annulus/kernels/host/task_runner.hpp"

namespace annulus::kernels::host {

namespace {

using Space = Kokkos::DefaultHostExecutionSpace;

template <class T>
T load_number(const void* number, core::DType type) {
  switch (type) {
    case core::DType::float64:
      return T(*static_cast<const double*>(number));
    case core::DType::float32:
      return T(*static_cast<const float*>(number));
    case core::DType::float16:
      return core::load_as<T>(*static_cast<const core::Half*>(number));
    case core::DType::bfloat16:
      return core::load_as<T>(*static_cast<const core::BFloat16*>(number));
  }
  return 0;
}

template <class T>
void delta_in(const core::Shape& shape, Index rows, const TensorView& out, const TensorView& dout,
              const TensorView& dlse, const TensorView& delta, const BackwardFunctions<T>& functions) {
  const auto dot = functions.dot[storage_index(out.type)];
  const auto one_row = [=](const Index i) {
    const Index b = i / rows, row = i % rows;
    for (Index h = 0; h < shape.heads; ++h) {
      T value = dot(address(dout, b, row, h), address(out, b, row, h), int(shape.head_dim));
      if (dlse.data) value -= load_number<T>(address(dlse, b, row, h), dlse.type);
      *static_cast<T*>(const_cast<void*>(address(delta, b, row, h))) = value;
    }
  };
  Kokkos::parallel_for("annulus::backward_delta", Kokkos::RangePolicy<Space>(0, shape.batch * rows), one_row);
  Space().fence();
}

template <class T>
void finish_in(Index batch, Index rows, Index heads, Index head_dim, const TensorView& accumulator,
               const TensorView& to, T unit, const BackwardFunctions<T>& functions) {
  const auto store_row = functions.store_row[storage_index(to.type)];
  const auto one_row = [=](const Index i) {
    const Index b = i / rows, row = i % rows;
    for (Index h = 0; h < heads; ++h)
      store_row(static_cast<const T*>(address(accumulator, b, row, h)), int(head_dim), unit,
                const_cast<void*>(address(to, b, row, h)));
  };
  Kokkos::parallel_for("annulus::finish_gradient", Kokkos::RangePolicy<Space>(0, batch * rows), one_row);
  Space().fence();
}

double unit_of(Gradient which, double scale) {
  switch (which) {
    case Gradient::dq:
      return scale;
    case Gradient::dk:
      return std::numbers::ln2;
    case Gradient::dv:
      return 1;
  }
  return 1;
}

}  // namespace

void host_backward_delta(const core::Shape& shape, Index rows, const TensorView& out, const TensorView& dout,
                         const TensorView& dlse, const TensorView& delta, InstructionSet set) {
  core::require(out.type == dout.type, [&] {
    return fmt::format("out and dout are stored as {} and {}; expected one type", name_of(out.type),
                       name_of(dout.type));
  });
  if (delta.type == core::DType::float64) {
    delta_in(shape, rows, out, dout, dlse, delta, backward_of<double>(set));
  } else {
    delta_in(shape, rows, out, dout, dlse, delta, backward_of<float>(set));
  }
}

void host_finish_gradient(Gradient which, Index batch, Index rows, Index heads, Index head_dim,
                          const TensorView& accumulator, const TensorView& to, double scale, double /*output_scale*/,
                          InstructionSet set) {
  const double unit = unit_of(which, scale);
  if (accumulator.type == core::DType::float64) {
    finish_in<double>(batch, rows, heads, head_dim, accumulator, to, unit, backward_of<double>(set));
  } else {
    finish_in<float>(batch, rows, heads, head_dim, accumulator, to, float(unit), backward_of<float>(set));
  }
}

}  // namespace annulus::kernels::host
