// The forward loop of all strategies: the kernel adds keys to running softmaxes, step after step. Strategies differ
// only in the source of the keys.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Computes out and lse of this rank's rows, and normalizers and entropy if the problem asks for them, for a schedule
/// without an exchange (Schedule::has_exchange()). This is collective if ranks send each other rows. If `make_results`
/// is given, it is called instead of Computation::finish(). Throws core::Error.
core::RankMetrics run_forward(const Schedule& schedule, const Location& location, Tensors& tensors,
                              const Progress& progress, const std::function<void(Computation&)>& make_results = {});

}  // namespace annulus::strategies
