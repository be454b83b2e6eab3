// The portable back end's gradients: Kokkos teams and scratch memory on the default execution space. The functions of
// backward.hpp, without the back end.
#pragma once

#include <functional>

#include "annulus/kernels/backward.hpp"

namespace annulus::kernels {

void device_backward_delta(const core::Shape& shape, core::Index rows, const core::TensorView& out,
                           const core::TensorView& dout, const core::TensorView& dlse, const core::TensorView& delta);

void device_attend_backward(const core::WorkList& work, const core::Shape& shape, core::Index rows,
                            core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                            const std::function<void()>& poll);

/// 0: tiles live in the teams' scratch memory, which is nobody's allocation.
core::Index device_attend_backward_bytes(const core::Shape& shape, core::Index rows, core::Precision precision);

void device_finish_gradient(Gradient which, core::Index batch, core::Index rows, core::Index heads,
                            core::Index head_dim, const core::TensorView& accumulator, const core::TensorView& to,
                            double scale, double output_scale);

}  // namespace annulus::kernels
