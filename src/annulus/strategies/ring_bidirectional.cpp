// ring_bidirectional: K and V travel both ways round at once, so P / 2 hops reach everybody. Upwards go the hops 1 ...
// P / 2 (rounded down), downwards the rest: for P = 4 two hops up and one down, for P = 5 two and two.
#include "annulus/strategies/hop_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_ring_bidirectional() {
  return make_hop_strategy(
      "ring_bidirectional", "the ring in both directions at once, half the hops", HopMode::overlapped,
      Movement::both_ways,
      [](const auto& layout, const auto& partition, int rank) {
        const int ranks = int(partition.size());
        return Lanes{pattern::ring_hops(layout, partition, rank, 1, ranks / 2),
                     pattern::ring_hops(layout, partition, rank, -1, (ranks - 1) / 2)};
      },
      [](const auto& layout, const auto& partition, int rank) {
        const int ranks = int(partition.size());
        return GradientLanes{pattern::ring_gradients(layout, partition, rank, 1, ranks / 2),
                             pattern::ring_gradients(layout, partition, rank, -1, (ranks - 1) / 2)};
      },
      "keys behind a row arrive in ascending order");
}

}  // namespace annulus::strategies
