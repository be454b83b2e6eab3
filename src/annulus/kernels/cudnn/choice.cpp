#include "annulus/kernels/cudnn/choice.hpp"

#include <fmt/core.h>

#include <cstdint>

#include "annulus/kernels/cuda/choice.hpp"

namespace annulus::kernels::cudnn {
namespace {

std::string why_not_stored(core::DType type) {
  if (core::bytes_of(type) == 2) return "";
  return fmt::format("cuDNN takes tensors of float16 and bfloat16, these are {}", core::name_of(type));
}

}  // namespace

// cuDNN takes 16-bit types only. Apart from this, it has the conditions of our own tensor-core kernels: rows in whole
// pieces of 16 bytes, and head sizes up to 256.
std::string why_not_attend(const Operands& operands, const State& state) {
  if (state.by_granules) return "granule by granule is asked for";
  const std::string reason = why_not_stored(operands.q.type);
  return reason.empty() ? cuda::why_not_attend(operands, state) : reason;
}

std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients) {
  const std::string reason = why_not_stored(operands.q.type);
  if (!reason.empty()) return reason;
  if (operands.by_granules) return "granule by granule is asked for";
  if (operands.out.data == nullptr) return "out is not available, or a gradient of the LSE is given";
  if (operands.output_scale != 1) return fmt::format("the output is scaled by {}", operands.output_scale);
  if (operands.out.type != operands.q.type) return "out is not stored as q is";
  if (reinterpret_cast<std::uintptr_t>(operands.out.data) % 16 != 0)
    return "out does not begin at a multiple of 16 bytes";
  if (gradients.dq.data == nullptr || gradients.dk.data == nullptr) return "not all gradients are asked for";
  const core::Index each = core::Index(core::bytes_of(operands.out.type));
  for (const core::Index stride : {operands.out.batch_stride, operands.out.row_stride, operands.out.head_stride}) {
    if (stride * each % 16 != 0)
      return fmt::format("out has a stride of {} bytes, which is no multiple of 16", stride * each);
  }
  return cuda::why_not_attend_backward(shape, precision, operands, gradients);
}

}  // namespace annulus::kernels::cudnn
