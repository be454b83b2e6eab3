// The largest head size.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Numbers of a head, D, at most: those that multi-head latent attention has in its keys. Matrix units, of the host and
/// of GPUs, take 256 at most; larger heads go to vectors and multiply-add units.
inline constexpr Index most_head_dim = 576;

}  // namespace annulus::core
