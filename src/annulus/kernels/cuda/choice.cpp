#include "annulus/kernels/cuda/choice.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "annulus/kernels/cuda/tuning.hpp"

namespace annulus::kernels::cuda {
namespace {

using core::DType;

/// Rows are copied in pieces of 16 bytes.
std::string why_not_copied(const char* name, const core::TensorView& tensor, core::Index head_dim) {
  const core::Index each = core::Index(core::bytes_of(tensor.type));
  if (head_dim * each % 16 != 0) return fmt::format("rows of {} bytes are no multiple of 16", head_dim * each);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0)
    return fmt::format("{} does not begin at a multiple of 16 bytes", name);
  for (const core::Index stride : {tensor.batch_stride, tensor.row_stride, tensor.head_stride}) {
    if (stride * each % 16 != 0)
      return fmt::format("{} has a stride of {} bytes, which is no multiple of 16", name, stride * each);
  }
  return "";
}

/// Largest head size that the kernels for such numbers have; 0: there are none.
int most_columns(const Operands& operands, const State& state) {
  const auto last = [](const auto& table) { return std::end(table)[-1].columns; };
  if (state.precision != core::default_precision(operands.q.type)) return 0;
  switch (operands.q.type) {
    case DType::float64:
      return last(sizes_64);
    case DType::float32:
      return operands.float32_products == Float32Products::plain ? 0 : last(sizes_32);
    default:
      return last(sizes_16);
  }
}

std::string no_products(DType type, core::Precision precision) {
  return fmt::format("matrix units have no products of {} with sums in {}", core::name_of(type),
                     core::name_of(precision));
}

/// The first reason against one of these tensors.
std::string why_not_copied(std::initializer_list<std::pair<const char*, core::TensorView>> tensors,
                           core::Index head_dim) {
  for (const auto& [name, tensor] : tensors) {
    if (const std::string reason = why_not_copied(name, tensor, head_dim); !reason.empty()) return reason;
  }
  return "";
}

}  // namespace

std::string why_not_attend(const Operands& operands, const State& state) {
  const core::Index head_dim = state.shape.head_dim;
  if (state.exponent_bias != 0) return "the same bits for any cut are asked for";
  if (state.score_sum.bytes() > 0) return "the entropy is asked for";
  const int most = most_columns(operands, state);
  if (most == 0) return no_products(operands.q.type, state.precision);
  if (head_dim > most) return fmt::format("head size {} is more than {}", head_dim, most);
  if (reinterpret_cast<std::uintptr_t>(state.acc.data()) % 16 != 0)
    return "the accumulator does not begin at a multiple of 16 bytes";
  return why_not_copied({{"q", operands.q}, {"k", operands.k}, {"v", operands.v}}, head_dim);
}

std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients) {
  const DType type = operands.q.type;
  const int most = std::end(key_sizes_16)[-1].columns;
  if (operands.any_cut) return "the same bits for any cut are asked for";
  if ((type != DType::bfloat16 && type != DType::float16) || precision != core::Precision::float32)
    return no_products(type, precision);
  if (shape.head_dim > most) return fmt::format("head size {} is more than {}", shape.head_dim, most);
  return why_not_copied({{"q", operands.q},
                         {"k", operands.k},
                         {"v", operands.v},
                         {"dout", operands.dout},
                         {"dq", gradients.dq},
                         {"dk", gradients.dk},
                         {"dv", gradients.dv}},
                        shape.head_dim);
}

}  // namespace annulus::kernels::cuda
