// The backward loop of all strategies. Strategies differ in how keys come, which sums are made, and where sums go.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Runs all steps of a schedule without an exchange (Schedule::has_exchange()), and adds what their keys and queries
/// contribute to the sums of `computation`; collective. Calls `make_results` when the rank's own sums are complete, and
/// returns when no other rank needs this rank's memory any more.
void run_backward(const Schedule& schedule, const PassContext& context, SumComputation& computation,
                  const std::function<void()>& make_results);

}  // namespace annulus::strategies
