// pass_q: keys stay where they are. Every rank gets all queries and computes them with its own keys; running softmaxes
// return to the queries' owners, which merge them. For few queries and many keys: traffic depends on the queries only.
// (In inference: Yang et al. 2024, arXiv 2411.01783.)
#include "annulus/strategies/named/named.hpp"
#include "annulus/strategies/own_passes.hpp"

namespace annulus::strategies {

StrategyEntry pass_q() {
  return {
      .name = "pass_q",
      .description = "keys stay, all queries go to every rank, their sums return: for few queries and many keys",
      .partition = distributed_partition,
      .communication = {CommunicationPattern::queries, false},
      .forward = own_keys(),
      .backward = own_gradients(),
      .why_not_reproducible = [](const Problem&,
                                 int) { return "each rank adds up its own keys, and the sums are merged afterwards"; },
      .why_no_reproducible_gradients =
          [](const Problem&, int) { return "each rank makes sums of dq of its own, which the owner adds"; },
      .all_queries = true,
  };
}

}  // namespace annulus::strategies
