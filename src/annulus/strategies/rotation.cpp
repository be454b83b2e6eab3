// rotation: at hop d a rank receives straight from rank p - d exactly the rows that it reads. The ring's order and
// message count, the fewest bytes, and no chain of ranks that store and forward.
#include "annulus/strategies/hop_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_rotation() {
  return make_hop_strategy(
      "rotation", "hop d reads straight from rank p-d exactly the rows needed: fewest bytes, no forwarding",
      HopMode::overlapped, Movement::direct,
      [](const auto& layout, const auto& partition, int rank) {
        return Lanes{pattern::rotation_hops(layout, partition, rank)};
      },
      [](const auto& layout, const auto& partition, int rank) {
        const pattern::Hops hops = pattern::rotation_hops(layout, partition, rank);
        return GradientLanes{pattern::direct_gradients(hops, rank, int(partition.size()))};
      });
}

}  // namespace annulus::strategies
