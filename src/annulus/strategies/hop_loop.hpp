// The one loop behind every strategy that moves K/V in hops: ring, rotation, both directions at once; blocking or
// overlapped.
#pragma once

#include "annulus/strategies/hop_keys.hpp"

namespace annulus::strategies {

/// Hops of one rank; made anew for every pass over the problem.
using MakeLanes = std::function<Lanes(const pattern::Layout&, const pattern::Partition&, int rank)>;

/// Predicted cost of forward_in_hops() for one rank.
Prediction predict_hops(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes, int rank);

/// Computes out and lse of this rank's rows: own keys first, then the rows that each hop brings. No rank holds more
/// than its own rows and, per lane, two received blocks and one to send, whatever P is. Hop h of the metrics is the sum
/// over hop h of all passes.
core::RankMetrics forward_in_hops(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes,
                                  HopMode mode, const comm::Communicator& comm, Tensors& tensors,
                                  const Progress& progress);

}  // namespace annulus::strategies
