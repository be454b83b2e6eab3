// rotation: at hop d, rank p receives exactly the rows that it reads, directly from rank p - d, and returns their dK
// and dV to that rank. Order and number of messages are those of the ring, but no rank forwards rows, so that the
// fewest bytes move. (In a reproducible problem, dK and dV go from rank to rank instead: gradients/ordered_sums.hpp.)
#include "annulus/strategies/gradients/hop_sums.hpp"
#include "annulus/strategies/gradients/ordered_sums.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

constexpr Direction straight{.from = pattern::From::owners};

}  // namespace

StrategyEntry rotation() {
  return {
      .name = "rotation",
      .description = "hop d reads straight from rank p-d exactly the rows needed: fewest bytes, no forwarding",
      .partition = parted_partition,
      .communication = {CommunicationPattern::direct, true},
      .forward = hops(HopMode::overlapped, {straight}),
      .backward = hops_and_sums(HopMode::overlapped, {straight}),
      .backward_in_order = hops_in_order(HopMode::overlapped, straight),
      .why_not_reproducible = unless_parts,
      .why_no_reproducible_gradients = unless_parts,
  };
}

}  // namespace annulus::strategies
