// Decides which calls the tensor-core kernels compute. The portable kernels (kernels/device) compute all others.
#pragma once

#include <Kokkos_Core.hpp>
#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::cuda {

/// True if this build has the tensor-core kernels.
#if defined(KOKKOS_ENABLE_CUDA)
inline constexpr bool is_built = true;
#else
inline constexpr bool is_built = false;
#endif

/// Returns why no GPU's tensor cores can compute such a call of attend(). Empty: the tensor cores of some GPUs can.
/// Examples: "the same bits for any cut are asked for", "rows of 10 bytes are no multiple of 16".
std::string why_not_attend(const Operands& operands, const State& state);

/// The same for attend_backward().
std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients);

/// Returns why calls of such a problem cannot be computed granule by granule (State::by_granules). Empty: shape, type
/// and precision allow this, but the GPU may still be unable to do it (has_granules()).
std::string why_no_granules(const core::Shape& shape, core::DType type, core::Precision precision);

}  // namespace annulus::kernels::cuda
