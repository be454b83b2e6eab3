// ring_bidirectional: K and V travel both ways round the ring at once, so that they reach all ranks in P / 2 hops
// instead of P - 1. P / 2 hops (rounded down) go upwards, to higher ranks, and the others downwards: 2 and 1 for P = 4,
// 2 and 2 for P = 5.
#include "annulus/strategies/gradients/hop_sums.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

const std::vector<Direction> both_ways{
    {.sign = 1, .reach = [](int ranks) { return ranks / 2; }},
    {.sign = -1, .reach = [](int ranks) { return (ranks - 1) / 2; }},
};

std::string why_not(const Problem&, int) { return "keys arrive from both directions, not in descending order"; }

}  // namespace

StrategyEntry ring_bidirectional() {
  return {
      .name = "ring_bidirectional",
      .description = "the ring in both directions at once, half the hops",
      .partition = ordered_partition,
      .communication = {CommunicationPattern::both_ways, true},
      .forward = hops(HopMode::overlapped, both_ways),
      .backward = hops_and_sums(HopMode::overlapped, both_ways),
      .why_not_reproducible = why_not,
      .why_no_reproducible_gradients = why_not,
  };
}

}  // namespace annulus::strategies
