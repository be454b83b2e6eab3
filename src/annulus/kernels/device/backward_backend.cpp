#include "annulus/kernels/device/backward_backend.hpp"

#include <Kokkos_Core.hpp>

#include "annulus/kernels/device/team_backward.hpp"
#include "annulus/kernels/device/team_gradient.hpp"

namespace annulus::kernels {

using core::Index;
using core::TensorView;
using Space = Kokkos::DefaultExecutionSpace;
using Tuning = device::TuningOf<Space>::type;

void device_backward_delta(const core::Shape& shape, Index rows, const TensorView& out, const TensorView& dout,
                           const TensorView& dlse, const TensorView& delta) {
  device::delta_of_rows<Space>(shape, rows, out, dout, dlse, delta);
}

void device_attend_backward(const core::WorkList& work, const core::Shape& shape, Index /*rows*/,
                            core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                            const std::function<void()>& poll) {
  device::team_backward<Space, Tuning>(work, shape, precision, operands, gradients, poll, Tuning::team_size);
}

Index device_attend_backward_bytes(const core::Shape& /*shape*/, Index /*rows*/, core::Precision /*precision*/) {
  return 0;
}

void device_finish_gradient(Gradient which, Index batch, Index rows, Index heads, Index head_dim,
                            const TensorView& accumulator, const TensorView& to, double scale, double output_scale) {
  const double unit = which == Gradient::dv ? output_scale : scale;
  device::team_gradient<Space>({batch, rows, heads, heads, head_dim}, rows, accumulator, to, unit, Tuning::team_size);
}

}  // namespace annulus::kernels
