// The largest head sizes.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::core {

/// The largest head size D is that of the keys in multi-head latent attention. The matrix units of the host and of GPUs
/// compute heads of at most 256 numbers. Larger heads are computed without matrix units.
inline constexpr Index most_head_dim = 576;
inline constexpr Index most_matrix_dim = 256;

}  // namespace annulus::core
