// A problem as its definition reads it.
#pragma once

#include "annulus/kernels/reference.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// In the words of kernels/reference.hpp, which share none with the pattern room.
kernels::ReferencePattern reference_pattern(const Problem& problem);

}  // namespace annulus::strategies
