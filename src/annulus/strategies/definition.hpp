// Describes a problem to the float64 reference.
#pragma once

#include "annulus/kernels/reference.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// Returns the problem's pattern for kernels/reference.hpp, which shares no code with the folder `pattern`.
kernels::ReferencePattern reference_pattern(const Problem& problem);

}  // namespace annulus::strategies
