// How long attention takes if scores have a cap or a bias (kernels/score_rule.hpp).
#pragma once

#include "annulus/core/machine.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::planner {

/// Seconds of one rank for a GFLOP of the problem's attention, while all ranks of its node compute: the machine's time
/// for plain scores, times a factor for the problem's rule. Worked example: plain scores 2 s, with a cap 2.2 s.
double seconds_per_gflop(const strategies::Problem& problem, const core::Machine& machine);

}  // namespace annulus::planner
