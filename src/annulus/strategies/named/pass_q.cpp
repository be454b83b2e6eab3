// pass_q: keys stay where they are. Every rank gets the queries of all ranks and computes them with its own keys;
// states go home and are merged. For few queries that meet many keys: what travels does not grow with the keys.
// (In inference: Yang et al. 2024, arXiv 2411.01783.)
#include "annulus/strategies/named/named.hpp"
#include "annulus/strategies/own_passes.hpp"

namespace annulus::strategies {

StrategyEntry pass_q() {
  return {
      .name = "pass_q",
      .description = "keys stay, all queries go to every rank, what they find goes home: for few queries of many keys",
      .partition = distributed_partition,
      .communication = {CommunicationPattern::queries, false},
      .forward = own_keys(),
      .backward = own_gradients(),
      .why_not_reproducible = [](const Problem&,
                                 int) { return "each rank adds up its own keys, and the sums are merged afterwards"; },
      .why_no_reproducible_gradients = [](const Problem&,
                                          int) { return "ranks make sums of dq apart, for their owner to add up"; },
      .all_queries = true,
  };
}

}  // namespace annulus::strategies
