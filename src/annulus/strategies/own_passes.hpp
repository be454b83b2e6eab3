// Passes of a rank that has all keys it needs.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Own keys; own sums.
MakePlans own_keys();
MakePlans own_gradients();
/// Sums of a pass in which no rank works on another one's keys.
std::unique_ptr<SumPlan> own_sums(Wanted wanted);

}  // namespace annulus::strategies
