// Strategies that exchange rows for heads: inside groups of ranks, with the ring across the groups.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

/// Ranks of a group, a divisor of the number of ranks.
using GroupSize = std::function<int(const Problem&, int ranks)>;

/// A strategy in three steps: inside each group of consecutive ranks the rows of q, k and v are exchanged for heads;
/// ranks at the same place of their groups run the ring with their share of the heads; out and lse go home. Memory per
/// rank is O(n H / P) beside the rank's own rows.
std::unique_ptr<Strategy> make_head_strategy(std::string_view name, std::string_view description, GroupSize group_size);

}  // namespace annulus::strategies
