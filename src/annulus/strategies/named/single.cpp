// single: rank 0 holds all rows and computes; the other ranks wait.
#include "annulus/strategies/named/named.hpp"
#include "annulus/strategies/own_passes.hpp"

namespace annulus::strategies {

StrategyEntry single() {
  return {
      .name = "single",
      .description = "rank 0 holds and computes everything, the others wait",
      .partition = [](const Problem& problem,
                      int ranks) { return pattern::root_partition(problem.shape.sequence, ranks); },
      .communication = {CommunicationPattern::none},
      .forward = own_keys(),
      .backward = own_gradients(),
      .why_not_reproducible = always_reproducible,
      .why_no_reproducible_gradients = always_reproducible,
  };
}

}  // namespace annulus::strategies
