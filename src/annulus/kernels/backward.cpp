#include "annulus/kernels/backward.hpp"

#include <algorithm>

#include "annulus/core/error.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/backend.hpp"
#include "annulus/kernels/cuda/choice.hpp"
#include "annulus/kernels/tuning.hpp"

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
  const core::DType sums = core::type_of(precision);
  for (const TensorView& tensor : {operands.normalizers, operands.delta, gradients.dq, gradients.dk, gradients.dv}) {
    core::require(tensor.type == sums, [&] {
      return fmt::format("normalizers, delta or gradients are {}; expected the accumulation type {}",
                         name_of(tensor.type), name_of(sums));
    });
  }
}

}  // namespace

void backward_delta(Backend backend, const core::Shape& shape, Index rows, const TensorView& out,
                    const TensorView& dout, const TensorView& dlse, const TensorView& delta) {
  functions_of(backend).backward_delta(shape, rows, out, dout, dlse, delta);
}

void attend_backward(Backend backend, const core::WorkList& work, const core::Shape& shape, Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const std::function<void()>& poll) {
  check(operands, gradients, precision);
  check_products(backend, precision, operands.q.type);
  check_rule(backend, operands.rule);
  check_value_dim(backend, shape);
  if (work.empty()) return;
  const bool by_host = backend == Backend::host && core::has_own_products(precision);
  if (operands.by_granules && !by_host)
    check_granules(cuda::why_not_attend_backward(shape, precision, operands, gradients));
  functions_of(backend).attend_backward(work, shape, rows, precision, operands, gradients, poll);
}

Index attend_backward_bytes(Backend backend, const core::Shape& shape, Index rows, core::Precision precision,
                            bool in_blocks) {
  return functions_of(backend).attend_backward_bytes(shape, rows, precision, in_blocks);
}

Index backward_block_entries(Backend backend, const core::Shape& shape, Index bytes) {
  if (backend != Backend::host) return std::max<Index>(1, tuning::device_block_bytes / bytes);
  const Index in_caches = tuning::host_entries_bytes / bytes,
              for_all = core::ceil_div(tuning::host_tasks_per_thread, shape.kv_heads);
  return core::host_threads() * std::max<Index>(in_caches, for_all);
}

void finish_gradient(Backend backend, Gradient which, Index batch, Index rows, Index heads, Index head_dim,
                     core::Precision precision, const TensorView& accumulator, const TensorView& to, double scale,
                     double output_scale) {
  functions_of(backend).finish_gradient(which, {batch, rows, heads, heads, head_dim}, precision, accumulator, to, scale,
                                        output_scale);
}

}  // namespace annulus::kernels
