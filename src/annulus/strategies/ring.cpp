// ring: K and V travel p -> p + 1 hop by hop while the kernel works on the block in hand; Q, out and buffers stay O(n /
// P).
#include "annulus/strategies/hop_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_ring() {
  return make_hop_strategy("ring", "pass K and V from neighbour to neighbour, overlapped with compute (O(n/P) memory)",
                           HopMode::overlapped, Movement::ring, ring_lanes, ring_gradient_lanes);
}

}  // namespace annulus::strategies
