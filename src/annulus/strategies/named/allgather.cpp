// allgather: every rank gets all of K and V in blocking collectives, then computes the output of its own queries.
// This is simple, but takes O(n) memory per rank.
#include "annulus/strategies/gradients/gathered_sums.hpp"
#include "annulus/strategies/gradients/ordered_sums.hpp"
#include "annulus/strategies/keys/gathered_plan.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

/// Each rank gets all keys, so out does not depend on which rank owns which rows. But in a reproducible problem the
/// sums of dk and dv go from rank to rank, which needs rows in order.
pattern::Partition partition(const Problem& problem, int ranks) {
  return problem.has_ordered_sums() ? ordered_partition(problem, ranks) : distributed_partition(problem, ranks);
}

}  // namespace

StrategyEntry allgather() {
  return {
      .name = "allgather",
      .description = "gather all K and V on every rank, then compute (O(n) memory)",
      .partition = partition,
      .communication = {CommunicationPattern::gather, false},  // not overlapped: ranks wait for the collective
      .forward = gathered(GatherOrder::at_once),
      .backward = gathered_gradients(HopMode::blocking),
      .backward_in_order = gathered_in_order(),
      .why_not_reproducible = always_reproducible,         // each rank has all keys and adds them in the fixed order
      .why_no_reproducible_gradients = unless_contiguous,  // but sums of dk and dv go from rank to rank
  };
}

}  // namespace annulus::strategies
