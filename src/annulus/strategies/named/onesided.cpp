// onesided: K and V are exposed once; every rank reads the rows it needs straight out of the other ranks' memory, a few
// owners ahead of the kernel. No rank sends, so no rank waits for another's compute: ranks meet when the windows are
// filled, and again before they are freed. Backward, sums for other ranks' rows are added into these ranks' memory.
#include "annulus/comm/window.hpp"
#include "annulus/strategies/gradients/window_sums.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
StrategyEntry onesided() {
  return {
      .name = "onesided",
      .description = "ranks read K and V out of each other's memory (MPI RMA): no rank waits for another's compute",
      .partition = ordered_partition,
      .communication = {CommunicationPattern::window},
      .forward = read_from_windows(),
      .backward = windows_and_sums(),
      .why_not_reproducible = unless_contiguous,
      .why_no_reproducible_gradients =
          [](const Problem&, int) {
            return "ranks add sums up in each other's memory, in whatever order they get there";
          },
      .why_unavailable = [] { return comm::window_defect(); },
  };
}

}  // namespace annulus::strategies
