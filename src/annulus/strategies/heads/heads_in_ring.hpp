// The common part of ulysses and hybrid: heads are exchanged inside groups, and the ring runs across the groups.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

/// Returns the entry of such a strategy, whose groups have the size that `group_size` returns.
StrategyEntry heads_in_ring(std::string_view name, std::string_view description, GroupSize group_size);

}  // namespace annulus::strategies
