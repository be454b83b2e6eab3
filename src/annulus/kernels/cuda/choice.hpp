// Which calls the tensor-core kernels take; all others go to the portable teams (kernels/device).
#pragma once

#include <Kokkos_Core.hpp>
#include <string>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::cuda {

/// Whether this build has the kernels.
#if defined(KOKKOS_ENABLE_CUDA)
inline constexpr bool is_built = true;
#else
inline constexpr bool is_built = false;
#endif

/// Why the portable kernel must do attend() of such a call, whatever the GPU; empty: the tensor cores can do it.
/// Examples: "the same bits for any cut are asked for", "rows of 10 bytes are no multiple of 16".
std::string why_not_attend(const Operands& operands, const State& state);

/// The same for attend_backward().
std::string why_not_attend_backward(const core::Shape& shape, core::Precision precision,
                                    const BackwardOperands& operands, const GradientViews& gradients);

/// Why calls of such a problem cannot be done granule by granule (State::by_granules). Empty: shape, type and
/// precision do not rule it out.
std::string why_no_granules(const core::Shape& shape, core::DType type, core::Precision precision);

}  // namespace annulus::kernels::cuda
