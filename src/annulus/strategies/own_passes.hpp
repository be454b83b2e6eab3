// Makes the plans of passes in which each rank works only on its own keys, so that no keys travel.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Make the plans of passes in which each rank works only on its own keys. own_keys(): without sums; own_gradients():
/// with sums for these keys.
MakePlans own_keys();
MakePlans own_gradients();
/// Makes the plan of the sums of a pass in which no rank works on another rank's keys.
std::unique_ptr<SumPlan> own_sums(Wanted wanted);

}  // namespace annulus::strategies
