// onesided: K and V are exposed once; every rank reads the rows it needs straight out of the other ranks' memory, a few
// owners ahead of the kernel. Nobody sends, so no rank waits for another's compute: ranks meet when the windows are
// filled, and again before they are freed. Backward, sums for other ranks' rows are added into these ranks' memory.
#include "annulus/comm/window.hpp"
#include "annulus/comm/window_room.hpp"
#include "annulus/strategies/gradients/window_sums.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

/// Shared memory gets pages when it is touched, and a rank that finds none left dies of it: so there must be room for
/// the windows of both passes, the backward pass having two at a time.
void check_room(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  const pattern::Hops hops = pattern::rotation_hops(problem.layout(), partition, comm.rank());
  const Index sums = problem.gradients ? sum_window_bytes(problem, rows, hops) : 0;
  comm::require_window_room(comm, kv_window_bytes(problem, rows, hops) + sums);
}

}  // namespace

StrategyEntry onesided() {
  return {
      .name = "onesided",
      .description = "ranks read K and V out of each other's memory (MPI RMA): no rank waits for another's compute",
      .partition = ordered_partition,
      .communication = {Movement::window},
      .forward = read_from_windows(),
      .backward = windows_and_sums(),
      .why_not_reproducible = unless_contiguous,
      .why_no_reproducible_gradients =
          [](const Problem&, int) {
            return "ranks add dk and dv up in each other's memory, in whatever order they get there";
          },
      .why_unavailable = [] { return comm::window_defect(); },
      .check_ranks = check_room,
  };
}

}  // namespace annulus::strategies
