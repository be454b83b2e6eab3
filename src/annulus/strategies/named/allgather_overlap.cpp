// allgather_overlap: every rank gets all of K and V, as in allgather. While rows travel, the kernel works on the rank's
// own rows, then on the rows of one other rank after another: in the order of their arrival (forward pass), or in the
// order rank - 1, rank - 2, ... (backward pass). This takes O(n) memory per rank.
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
                                 int) { return "it adds blocks in the order in which they happen to arrive"; },
      .why_no_reproducible_gradients = [](const Problem&,
                                          int) { return "each rank makes sums of dk and dv, and the owner adds them"; },
  };
}

}  // namespace annulus::strategies
