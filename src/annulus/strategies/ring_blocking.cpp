// ring_blocking: the ring's hops with blocking sends between the kernel calls, to show what overlap is worth.
#include "annulus/strategies/hop_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_ring_blocking() {
  return make_hop_strategy("ring_blocking",
                           "the ring with blocking sends: even ranks send then receive, odd the reverse",
                           HopMode::blocking, Movement::ring, ring_lanes, ring_gradient_lanes);
}

}  // namespace annulus::strategies
