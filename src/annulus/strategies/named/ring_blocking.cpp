// ring_blocking: the hops of `ring`, with blocking sends between kernel calls. Compared with it, `ring` shows how much
// time overlap saves.
#include "annulus/strategies/gradients/hop_sums.hpp"
#include "annulus/strategies/gradients/ordered_sums.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {

StrategyEntry ring_blocking() {
  return {
      .name = "ring_blocking",
      .description = "the ring with blocking sends: even ranks send then receive, odd the reverse",
      .partition = ordered_partition,  // without parts: with blocking messages, two parts of a rank would deadlock
      .communication = {CommunicationPattern::ring, false},  // not overlapped
      .forward = hops(HopMode::blocking, {upwards}),
      .backward = hops_and_sums(HopMode::blocking, {upwards}),
      .backward_in_order = hops_in_order(HopMode::blocking, upwards),
      .why_not_reproducible = unless_contiguous,
      .why_no_reproducible_gradients = unless_contiguous,
  };
}

}  // namespace annulus::strategies
