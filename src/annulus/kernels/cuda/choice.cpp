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

/// Returns why rows cannot be copied in pieces of 16 bytes; empty if they can.
std::string why_no_pieces(DType type, core::Index head_dim) {
  const core::Index bytes = head_dim * core::Index(core::bytes_of(type));
  return bytes % 16 != 0 ? fmt::format("rows of {} bytes are no multiple of 16", bytes) : "";
}
std::string why_not_copied(const char* name, const core::TensorView& tensor, core::Index head_dim) {
  const core::Index each = core::Index(core::bytes_of(tensor.type));
  if (const std::string reason = why_no_pieces(tensor.type, head_dim); !reason.empty()) return reason;
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0)
    return fmt::format("{} does not begin at a multiple of 16 bytes", name);
  for (const core::Index stride : {tensor.batch_stride, tensor.row_stride, tensor.head_stride}) {
    if (stride * each % 16 != 0)
      return fmt::format("{} has a stride of {} bytes, which is no multiple of 16", name, stride * each);
  }
  return "";
}

/// The largest head sizes that the kernels of a pass take, for each size of the tensors' numbers.
struct MostColumns {
  int of_16_bits, of_32_bits, of_64_bits;
};
template <class Table>
constexpr int last(const Table& table) {
  return std::end(table)[-1].columns;
}
constexpr MostColumns forward_columns{last(sizes_16), last(sizes_tf32), last(sizes_64)};
static_assert(last(sizes_tf32) == last(sizes_3xtf32) && last(key_sizes_tf32) == last(key_sizes_3xtf32));
constexpr MostColumns backward_columns{last(key_sizes_16), last(key_sizes_tf32), last(key_sizes_64)};

/// Returns why there are no matrix products of this type, precision and head size; empty if there are.
std::string why_not_multiplied(DType type, core::Precision precision, core::Index head_dim, const MostColumns& most) {
  const bool is_single = type == DType::float32;
  if (is_single ? !core::is_tf32(precision) : precision != core::default_precision(type)) {
    return fmt::format("matrix units have no products of {} with precision {}", core::name_of(type),
                       core::name_of(precision));
  }
  const int columns = is_single ? most.of_32_bits : type == DType::float64 ? most.of_64_bits : most.of_16_bits;
  return head_dim > columns ? fmt::format("head size {} is more than {}", head_dim, columns) : "";
}

/// Returns the first reason that why_not_copied() gives for one of these tensors; empty if it gives none.
std::string why_not_copied(std::initializer_list<std::pair<const char*, core::TensorView>> tensors,
                           core::Index head_dim) {
  for (const auto& [name, tensor] : tensors) {
    if (const std::string reason = why_not_copied(name, tensor, head_dim); !reason.empty()) return reason;
  }
  return "";
}

/// Returns a reason if the rule changes scores, because the block programs compute no caps and biases.
std::string why_not_ruled(const CallRule& rule) { return rule.rule == nullptr ? "" : "scores have a cap or a bias"; }

}  // namespace

std::string why_not_attend(const Operands& operands, const State& state) {
  const core::Index head_dim = state.shape.head_dim;
  if (state.exponent_bias != 0) return "the same bits for any cut are asked for";
  if (state.score_sum.bytes() > 0) return "the entropy is asked for";
  if (const std::string reason = why_not_ruled(operands.rule); !reason.empty()) return reason;
  // Weights are rounded to the type of the values, and l is the sum of the rounded weights (engines.hpp). Statistics
  // may come from weights in TF32, because a user who names this precision expects only its accuracy.
  if (state.exact_sums && core::bytes_of(operands.v.type) == 2) return "statistics need the sums of exact weights";
  const std::string reason = why_not_multiplied(operands.q.type, state.precision, head_dim, forward_columns);
  if (!reason.empty()) return reason;
  if (reinterpret_cast<std::uintptr_t>(state.acc.data()) % 16 != 0)
    return "the accumulator does not begin at a multiple of 16 bytes";
  return why_not_copied({{"q", operands.q}, {"k", operands.k}, {"v", operands.v}}, head_dim);
}

std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients) {
  if (operands.any_cut) return "the same bits for any cut are asked for";
  if (const std::string reason = why_not_ruled(operands.rule); !reason.empty()) return reason;
  const std::string reason = why_not_multiplied(operands.q.type, precision, shape.head_dim, backward_columns);
  if (!reason.empty()) return reason;
  return why_not_copied({{"q", operands.q},
                         {"k", operands.k},
                         {"v", operands.v},
                         {"dout", operands.dout},
                         {"dq", gradients.dq},
                         {"dk", gradients.dk},
                         {"dv", gradients.dv}},
                        shape.head_dim);
}

std::string why_no_granules(const core::Shape& shape, DType type, core::Precision precision) {
  for (const MostColumns& most : {forward_columns, backward_columns}) {
    const std::string reason = why_not_multiplied(type, precision, shape.head_dim, most);
    if (!reason.empty()) return reason;
  }
  return why_no_pieces(type, shape.head_dim);
}

}  // namespace annulus::kernels::cuda
