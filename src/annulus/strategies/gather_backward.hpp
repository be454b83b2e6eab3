// The backward pass of the strategies that gather K and V: owner by owner, so that gradients never take O(n) memory.
#pragma once

#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/hop_loop.hpp"

namespace annulus::strategies {

Prediction predict_gathered_backward(const Problem& problem, const pattern::Partition& partition, int rank);

/// Every rank gathers all of K and V, then takes owner after owner: itself, rank - 1, rank - 2, ... Its sums for an
/// owner's rows, all of them, go there while it works on the next owner's (overlapped) or between two kernel calls
/// (blocking), and each owner adds up what comes from rank + 1, rank + 2, ... in this order: a reduce-scatter that
/// needs two blocks to send and one to receive instead of n rows. `mode` also says whether K and V are gathered
/// meanwhile or before.
core::RankMetrics backward_gathered(const Problem& problem, const pattern::Partition& partition, HopMode mode,
                                    const comm::Communicator& comm, Tensors& tensors, const Progress& progress);

/// The same for a reproducible problem (ordered_backward.hpp): every rank gathers all of K and V, then the sums of each
/// rank's rows go up from rank to rank, no more of them than some rank further up reads, and home, nothing hidden.
Prediction predict_gathered_in_order(const Problem& problem, const pattern::Partition& partition, int rank);
core::RankMetrics backward_gathered_in_order(const Problem& problem, const pattern::Partition& partition,
                                             const comm::Communicator& comm, Tensors& tensors,
                                             const Progress& progress);

}  // namespace annulus::strategies
