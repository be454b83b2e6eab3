// hybrid: ulysses inside groups of ranks that have fast links between them (a node), and the ring across the groups.
// The all-to-all stays inside a node; only K and V that other nodes read, and sums of their gradients, cross the
// network. There may be more ranks than heads.
#include "annulus/strategies/heads/heads_in_ring.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

int group_size(const Problem& problem, int ranks) {
  const int size = problem.ulysses_ranks > 0 ? problem.ulysses_ranks : ranks;
  core::require(ranks % size == 0, [&] { return fmt::format("{} ranks cannot make groups of {}", ranks, size); });
  return size;
}

}  // namespace

StrategyEntry hybrid() {
  return heads_in_ring("hybrid", "ulysses inside groups of ulysses_ranks ranks, the ring across the groups",
                       group_size);
}

}  // namespace annulus::strategies
