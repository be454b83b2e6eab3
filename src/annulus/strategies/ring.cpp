// ring: K and V travel p -> p + 1 hop by hop while the kernel works on the block in hand; Q, out and buffers stay O(n /
// P).
#include "annulus/strategies/hop_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_ring() {
  return make_hop_strategy(
      "ring", "pass K and V from neighbour to neighbour, overlapped with compute (O(n/P) memory)", HopMode::overlapped,
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
