// The one backward loop. Strategies differ in how keys come, in what is summed, and in where the sums go.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Adds to `computation` what all keys and this rank's queries give each other, for a schedule without groups;
/// collective. Calls `make_results` when the rank's own sums are complete, before the collective end of the pass.
void run_backward(const Schedule& schedule, const PassContext& context, SumComputation& computation,
                  const std::function<void()>& make_results);

}  // namespace annulus::strategies
