// ring: K and V travel hop by hop from rank p to rank p + 1 while the kernel works on the block that arrived last.
// Memory per rank is O(n / P). (Ring attention: Liu et al. 2023.)
#include "annulus/strategies/gradients/hop_sums.hpp"
#include "annulus/strategies/gradients/ordered_sums.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {

StrategyEntry ring() {
  return {
      .name = "ring",
      .description = "pass K and V from neighbour to neighbour, overlapped with compute (O(n/P) memory)",
      .partition = parted_partition,
      .communication = {CommunicationPattern::ring, true},
      .forward = hops(HopMode::overlapped, {upwards}),
      .backward = hops_and_sums(HopMode::overlapped, {upwards}),
      .backward_in_order = hops_in_order(HopMode::overlapped, upwards),
      .why_not_reproducible = unless_parts,
      .why_no_reproducible_gradients = unless_parts,
  };
}

}  // namespace annulus::strategies
