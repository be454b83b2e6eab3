// The one backward loop. Strategies differ in how keys come, which sums are made, and where the sums go.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Adds to the sums of `computation` what the keys and queries of all steps contribute, for a schedule without an
/// exchange (Schedule::has_exchange()); collective. Calls `make_results` when the rank's own sums are complete; then
/// all ranks end the pass.
void run_backward(const Schedule& schedule, const PassContext& context, SumComputation& computation,
                  const std::function<void()>& make_results);

}  // namespace annulus::strategies
