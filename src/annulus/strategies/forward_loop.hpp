// The one forward loop: whatever brings the keys, the kernel adds them to a running softmax, step after step.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Computes out, lse and, where the problem asks for gradients, normalizers of this rank's rows by a schedule without
/// an exchange; collective where ranks bring each other rows. Without `make_results` they are made by
/// Computation::finish(). Throws core::Error.
core::RankMetrics run_forward(const Schedule& schedule, const Location& location, Tensors& tensors,
                              const Progress& progress, const std::function<void(Computation&)>& make_results = {});

}  // namespace annulus::strategies
