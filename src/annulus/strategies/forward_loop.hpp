// The one forward loop: whatever brings the keys, the kernel adds them to a running softmax, step after step.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Computes out, lse and, where the problem asks for gradients, normalizers of this rank's rows by a schedule without
/// groups; collective where ranks bring each other rows. Throws core::Error.
core::RankMetrics run_forward(const Schedule& schedule, const Location& location, Tensors& tensors, const Progress& progress);

}  // namespace annulus::strategies
