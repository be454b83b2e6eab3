// Defines limits for the size of a head.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::core {

/// A head has at most 576 numbers, as keys have in multi-head latent attention. Matrix units, of the host and of GPUs,
/// compute heads of at most 256 numbers; larger heads are computed without them.
inline constexpr Index most_head_dim = 576;
inline constexpr Index most_matrix_dim = 256;

}  // namespace annulus::core
