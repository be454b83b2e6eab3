// The one loop behind the backward pass of every strategy that moves K/V in hops (hop_loop.hpp has the forward's).
#pragma once

#include "annulus/strategies/gradient_lane.hpp"
#include "annulus/strategies/hop_loop.hpp"

namespace annulus::strategies {

/// The ways of the gradients of what the hops of each lane bring.
using GradientLanes = std::vector<pattern::GradientHops>;

/// The ring: one lane upwards, all the way round, and the gradients of what it brings.
Lanes ring_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank);
GradientLanes ring_gradient_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank);

struct BackwardLanes {
  Lanes keys;  ///< hops of K and V
  GradientLanes gradients;
};

/// Predicted cost of backward_in_hops() for one rank; memory without what it reads (backward_inputs()).
Prediction predict_backward_hops(const Problem& problem, const pattern::Partition& partition,
                                 const BackwardLanes& lanes, int rank);

/// Adds to `computation` what all K/V rows and this rank's queries give each other, K/V being `own` and what each hop
/// brings; sums for rows of other ranks go to their owners. Gradients of hop h travel while the kernel works on the
/// rows of hop h + 1 and K and V of hop h + 2 come in. An owner adds up what comes home hop after hop, lane after lane:
/// an order that only the plan decides. Beside its own rows no rank holds more than, per lane, two received blocks of
/// K/V and one to send, two blocks of sums, one to send and one received.
void backward_in_hops(const Problem& problem, const pattern::Partition& partition, const BackwardLanes& lanes,
                      HopMode mode, const comm::Communicator& comm, const KeyBlock& own,
                      BackwardComputation& computation, core::RankMetrics& metrics);

}  // namespace annulus::strategies
