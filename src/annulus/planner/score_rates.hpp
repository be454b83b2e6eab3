// How fast scores with a cap or a bias are computed.
#pragma once

#include "annulus/core/machine.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::planner {

/// Seconds of one rank for a GFLOP of the problem's attention, while all ranks of its node compute: the machine's rate
/// for plain scores, times what the problem's rule costs. Worked example: 2 s for plain scores, softcap: 2.2 s.
double seconds_per_gflop(const strategies::Problem& problem, const core::Machine& machine);

}  // namespace annulus::planner
