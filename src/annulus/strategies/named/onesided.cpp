// onesided: in a pass every rank exposes its K and V in an MPI window, and reads the rows that it needs directly from
// the windows of other ranks. While the kernel works on one owner's rows, the rows of the next two owners are being
// read. In the backward pass a rank adds its sums to sums in the windows of the rows' owners. No rank sends messages,
// so no rank waits until another has computed. Ranks wait for each other only when windows are filled and freed, and
// when owners read the finished sums.
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
            return "ranks add their sums into each other's memory, in whatever order they arrive";
          },
      .why_unavailable = [] { return comm::window_defect(); },
  };
}

}  // namespace annulus::strategies
