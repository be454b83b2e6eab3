// What ulysses and hybrid have in common: heads inside groups, the ring across them.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

StrategyEntry heads_in_ring(std::string_view name, std::string_view description, GroupSize group_size);

}  // namespace annulus::strategies
