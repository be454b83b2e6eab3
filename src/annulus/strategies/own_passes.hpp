// Passes in which a rank has all keys that it needs from the start.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Plans of passes in which a rank's queries meet only its own keys: without sums, and with sums for these keys.
MakePlans own_keys();
MakePlans own_gradients();
/// The plan of the sums of a pass in which no rank works on another rank's keys.
std::unique_ptr<SumPlan> own_sums(Wanted wanted);

}  // namespace annulus::strategies
