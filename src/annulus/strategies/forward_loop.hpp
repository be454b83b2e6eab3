// The one forward loop: the kernel adds keys to a running softmax step after step. Strategies differ in how keys come.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Computes out, lse and, where the problem asks for gradients, normalizers of this rank's rows, for a schedule without
/// an exchange; collective if ranks send each other rows. If `make_results` is empty, Computation::finish() makes the
/// results. Throws core::Error.
core::RankMetrics run_forward(const Schedule& schedule, const Location& location, Tensors& tensors,
                              const Progress& progress, const std::function<void(Computation&)>& make_results = {});

}  // namespace annulus::strategies
