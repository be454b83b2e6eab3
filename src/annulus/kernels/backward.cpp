// Which back end makes the gradients.
#include "annulus/kernels/backward.hpp"

#include "annulus/core/error.hpp"
#include "annulus/kernels/device/backward_backend.hpp"
#if defined(ANNULUS_HAS_HOST_TILES)
#include "annulus/kernels/host/host_backend.hpp"
#else
#include "annulus/kernels/no_host_backend.hpp"
#endif

namespace annulus::kernels {

using core::Index;
using core::TensorView;

namespace {

void check(const BackwardOperands& operands, const GradientViews& gradients, core::Precision precision) {
  const core::DType type = operands.q.type;
  core::require(type == operands.k.type && type == operands.v.type && type == operands.dout.type, [&] {
    return fmt::format("q, k, v, dout are stored as {}, {}, {}, {}; expected one type", name_of(operands.q.type),
                       name_of(operands.k.type), name_of(operands.v.type), name_of(operands.dout.type));
  });
  const core::DType sums = precision == core::Precision::float64 ? core::DType::float64 : core::DType::float32;
  for (const TensorView& tensor : {operands.normalizers, operands.delta, gradients.dq, gradients.dk, gradients.dv}) {
    core::require(tensor.type == sums, [&] {
      return fmt::format(
          "normalizers, delta and gradients are kept as {}, one of them is {}; expected the accumulation type",
          name_of(sums), name_of(tensor.type));
    });
  }
}

}  // namespace

void backward_delta(Backend backend, const core::Shape& shape, Index rows, const TensorView& out,
                    const TensorView& dout, const TensorView& dlse, const TensorView& delta) {
  if (backend == Backend::device) {
    device_backward_delta(shape, rows, out, dout, dlse, delta);
    return;
  }
#if defined(ANNULUS_HAS_HOST_TILES)
  host::host_backward_delta(shape, rows, out, dout, dlse, delta);
#else
  no_host_backend();
#endif
}

void attend_backward(Backend backend, const core::WorkList& work, const core::Shape& shape, Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const std::function<void()>& poll) {
  check(operands, gradients, precision);
  if (work.empty()) return;
  if (backend == Backend::device) {
    device_attend_backward(work, shape, rows, precision, operands, gradients, poll);
    return;
  }
#if defined(ANNULUS_HAS_HOST_TILES)
  host::host_attend_backward(work, shape, rows, precision, operands, gradients, poll);
#else
  no_host_backend();
#endif
}

Index attend_backward_bytes(Backend backend, const core::Shape& shape, Index rows, core::Precision precision) {
  if (backend == Backend::device) return device_attend_backward_bytes(shape, rows, precision);
#if defined(ANNULUS_HAS_HOST_TILES)
  return host::host_attend_backward_bytes(shape, rows, precision);
#else
  no_host_backend();
#endif
}

void finish_gradient(Backend backend, Gradient which, Index batch, Index rows, Index heads, Index head_dim,
                     const TensorView& accumulator, const TensorView& to, double scale, double output_scale) {
  if (backend == Backend::device) {
    device_finish_gradient(which, batch, rows, heads, head_dim, accumulator, to, scale, output_scale);
    return;
  }
#if defined(ANNULUS_HAS_HOST_TILES)
  host::host_finish_gradient(which, batch, rows, heads, head_dim, accumulator, to, scale, output_scale);
#else
  no_host_backend();
#endif
}

}  // namespace annulus::kernels
