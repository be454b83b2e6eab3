// A table of the functions that each back end has for attention.hpp, backward.hpp and statistics.hpp. Unlike the
// functions of those headers, they have no argument `backend`.
#pragma once

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/statistics.hpp"

namespace annulus::kernels {

struct BackendFunctions {
  using Index = core::Index;
  using Poll = std::function<void()>;

  void (*attend)(const core::WorkList& work, const Operands& operands, State& state, const Poll& poll);
  Index (*attend_bytes)(const core::Shape& shape, Index rows, core::Precision precision);
  void (*finish)(const State& state, const Finished& to, double output_scale);
  void (*backward_delta)(const core::Shape& shape, Index rows, const core::TensorView& out,
                         const core::TensorView& dout, const core::TensorView& dlse, const core::TensorView& delta);
  void (*attend_backward)(const core::WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                          const BackwardOperands& operands, const GradientViews& gradients, const Poll& poll);
  Index (*attend_backward_bytes)(const core::Shape& shape, Index rows, core::Precision precision, bool in_blocks);
  void (*attend_statistics)(const core::WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                            const StatisticOperands& operands, const StatisticViews& statistics, const Poll& poll);
  Index (*attend_statistics_bytes)(const core::Shape& shape, Index rows, Index slots, Index pairs,
                                   core::Precision precision);
  void (*finish_gradient)(Gradient which, const core::Shape& shape, core::Precision precision,
                          const core::TensorView& accumulator, const core::TensorView& to, double scale,
                          double output_scale);
};

/// Computes with teams of threads on the default execution space.
extern const BackendFunctions device_backend;
/// Computes with the processor's vector and matrix units, in the instruction set of best_instruction_set(). Tensors
/// must be in host memory. Builds whose default execution space is a GPU do not have this back end.
extern const BackendFunctions host_backend;

/// Computes with cuDNN, and passes to device_backend the calls that cuDNN cannot compute.
const BackendFunctions& cudnn_backend();
LibraryBackend cudnn_description();

/// Throws Error if the back end has no products of this precision for tensors of this type.
void check_products(Backend backend, core::Precision precision, core::DType stored);

/// Throws Error if `why_not`, the reason why a GPU's matrix units cannot compute a call granule by granule
/// (State::by_granules), is not empty. attend() and attend_backward() call this for every back end, so that a call that
/// a GPU would refuse also fails without a GPU. They do not call it if the host computes in precision bfloat16,
/// 3xbfloat16 or 6xbfloat16.
void check_granules(const std::string& why_not);

/// Throws Error if scores have a cap or a bias and the back end cannot compute such scores.
void check_rule(Backend backend, const CallRule& rule);
/// Throws Error if values have another head size than keys and the back end cannot compute such values.
void check_value_dim(Backend backend, const core::Shape& shape);

/// Throws Error(failure) for back end host if this build does not have it.
const BackendFunctions& functions_of(Backend backend);

}  // namespace annulus::kernels
