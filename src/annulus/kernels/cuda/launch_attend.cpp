#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/cuda/choice.hpp"

namespace annulus::kernels::cuda {

bool attend(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  if (!why_not_attend(operands, state).empty()) return false;
  return operands.q.type == core::DType::bfloat16 ? attend_bfloat16(work, operands, state, poll)
                                                  : attend_float16(work, operands, state, poll);
}

}  // namespace annulus::kernels::cuda
