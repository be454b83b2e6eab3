// The one backward loop: whatever brings the keys, whatever is added up, and wherever the sums go.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Adds to `computation` what all keys and this rank's queries give each other, by a schedule without groups;
/// collective. `make_results` is called when its own sums are complete, before ranks part.
void run_backward(const Schedule& schedule, const PassContext& context, SumComputation& computation,
                  const std::function<void()>& make_results);

}  // namespace annulus::strategies
