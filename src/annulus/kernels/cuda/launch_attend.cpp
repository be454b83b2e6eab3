#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/cuda/choice.hpp"

namespace annulus::kernels::cuda {

bool attend(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  if (!why_not_attend(operands, state).empty()) return false;
  switch (operands.q.type) {
    case core::DType::bfloat16:
      return attend_bfloat16(work, operands, state, poll);
    case core::DType::float16:
      return attend_float16(work, operands, state, poll);
    case core::DType::float32:
      return state.precision == core::Precision::tf32 ? attend_tf32(work, operands, state, poll)
                                                      : attend_3xtf32(work, operands, state, poll);
    case core::DType::float64:
      return attend_float64(work, operands, state, poll);
  }
  return false;
}

bool attend_backward(const core::WorkList& work, const core::Shape& shape, core::Precision precision,
                     const BackwardOperands& operands, const GradientViews& gradients, const Poll& poll) {
  if (!why_not_attend_backward(shape, precision, operands, gradients).empty()) return false;
  switch (operands.q.type) {
    case core::DType::bfloat16:
      return attend_backward_bfloat16(work, shape, operands, gradients, poll);
    case core::DType::float16:
      return attend_backward_float16(work, shape, operands, gradients, poll);
    case core::DType::float32:
      return precision == core::Precision::tf32 ? attend_backward_tf32(work, shape, operands, gradients, poll)
                                                : attend_backward_3xtf32(work, shape, operands, gradients, poll);
    case core::DType::float64:
      return attend_backward_float64(work, shape, operands, gradients, poll);
  }
  return false;
}

bool has_granules(const core::Shape& shape, core::DType type, core::Precision precision) {
  const core::TensorView none{nullptr, type, 0, 0, 0};
  State state(shape, 0, precision);
  state.by_granules = true;
  if (!attend({}, {none, none, none, 1}, state, {})) return false;
  BackwardOperands operands{none, none, none, none, {}, {}};
  operands.by_granules = true;
  return attend_backward({}, shape, precision, operands, {none, none, none}, {});
}

}  // namespace annulus::kernels::cuda
