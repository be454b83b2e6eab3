// The largest head sizes.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::core {

/// The largest head size D: that of the keys in multi-head latent attention. Matrix units, of the host and of GPUs,
/// take heads of at most 256; vector and multiply-add units compute the larger ones.
inline constexpr Index most_head_dim = 576;
inline constexpr Index most_matrix_dim = 256;

}  // namespace annulus::core
