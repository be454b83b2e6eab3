// The one forward loop: the kernel adds keys to running softmaxes, step after step. Only the source of keys differs.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Computes out, lse and, if Problem::has_sums(), normalizers of this rank's rows, for a schedule without an exchange
/// (Schedule::has_exchange()). Collective, if ranks send each other rows. If `make_results` is empty,
/// Computation::finish() makes the results; otherwise `make_results` does. Throws core::Error.
core::RankMetrics run_forward(const Schedule& schedule, const Location& location, Tensors& tensors,
                              const Progress& progress, const std::function<void(Computation&)>& make_results = {});

}  // namespace annulus::strategies
