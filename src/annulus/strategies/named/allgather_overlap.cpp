// allgather_overlap: all of K and V on every rank as in allgather, but while they travel the kernel works on the own
// rows, and then on each rank's rows as they arrive, whichever come first. O(n) memory per rank.
#include "annulus/strategies/gradients/gathered_sums.hpp"
#include "annulus/strategies/keys/gathered_plan.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {

StrategyEntry allgather_overlap() {
  return {
      .name = "allgather_overlap",
      .description = "allgather without waiting: own rows first, then each rank's rows as they arrive (O(n) memory)",
      .partition = distributed_partition,
      .communication = {CommunicationPattern::gather, true},
      .forward = gathered(GatherOrder::as_they_come),
      .backward = gathered_gradients(HopMode::overlapped),
      .why_not_reproducible = [](const Problem&,
                                 int) { return "it computes with blocks in the order in which they happen to arrive"; },
      .why_no_reproducible_gradients = [](const Problem&,
                                          int) { return "ranks make sums apart, for their owner to add up"; },
  };
}

}  // namespace annulus::strategies
