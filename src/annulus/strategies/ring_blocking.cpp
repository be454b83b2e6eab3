// ring_blocking: the ring's hops with blocking sends between the kernel calls, to show what overlap is worth.
#include "annulus/strategies/hop_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_ring_blocking() {
  return make_hop_strategy(
      "ring_blocking", "the ring with blocking sends: even ranks send then receive, odd the reverse", HopMode::blocking,
      Movement::ring,
      [](const auto& layout, const auto& partition, int rank) {
        return Lanes{pattern::ring_hops(layout, partition, rank, 1, int(partition.size()) - 1)};
      },
      [](const auto& layout, const auto& partition, int rank) {
        const int reach = int(partition.size()) - 1;
        return GradientLanes{pattern::ring_gradients(layout, partition, rank, 1, reach)};
      });
}

}  // namespace annulus::strategies
