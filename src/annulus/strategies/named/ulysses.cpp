// ulysses: an all-to-all gives every rank all rows of some of the heads; another one returns out and lse to the owners
// of the rows. If there are more ranks than heads, the last ranks have no work. (DeepSpeed-Ulysses: Jacobs et al.
// 2023.)
#include "annulus/strategies/heads/heads_in_ring.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {

StrategyEntry ulysses() {
  return heads_in_ring("ulysses", "all-to-all: every rank computes all rows of its share of the heads",
                       [](const Problem&, int ranks) { return ranks; });
}

}  // namespace annulus::strategies
