// pass_q: keys stay where they are. Every rank gets all queries, computes their attention to its own keys, and returns
// running softmaxes to the queries' owners, which merge those of all ranks. It suits few queries and many keys, because
// traffic depends only on the queries. (For inference: Yang et al. 2024, arXiv 2411.01783.)
#include "annulus/strategies/named/named.hpp"
#include "annulus/strategies/own_passes.hpp"

namespace annulus::strategies {

StrategyEntry pass_q() {
  return {
      .name = "pass_q",
      .description = "keys stay, all queries go to every rank, their sums return: for few queries and many keys",
      .partition = distributed_partition,
      .communication = {CommunicationPattern::queries, false},  // not overlapped: ranks wait for both collectives
      .forward = own_keys(),
      .backward = own_gradients(),
      .why_not_reproducible = [](const Problem&,
                                 int) { return "each rank makes softmaxes over its own keys, and these are merged"; },
      .why_no_reproducible_gradients =
          [](const Problem&, int) { return "each rank makes sums of dq over its own keys, and the owner adds them"; },
      .all_queries = true,
  };
}

}  // namespace annulus::strategies
