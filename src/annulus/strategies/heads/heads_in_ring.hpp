// The common part of ulysses and hybrid: rows are exchanged for heads inside groups, and the ring runs across groups.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

/// Returns the StrategyEntry of such a strategy; `group_size` returns the size of its groups.
StrategyEntry heads_in_ring(std::string_view name, std::string_view description, GroupSize group_size);

}  // namespace annulus::strategies
