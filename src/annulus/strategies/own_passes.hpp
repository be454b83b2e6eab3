// Passes of a rank that has all keys it needs.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Own keys; own sums.
MakePlans own_keys();
MakePlans own_gradients();

}  // namespace annulus::strategies
