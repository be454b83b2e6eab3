// Rows exchanged for heads inside groups of ranks, and a pass over the problem of some heads across the groups: ranks
// at the same place of their groups run it with their share of the heads; out and lse, or gradients, go home. Memory
// per rank is O(n H / P) beside the rank's own rows. (DeepSpeed-Ulysses; with a ring across: USP, LoongTrain.)
#pragma once

#include "annulus/strategies/gradients/gradient_sink.hpp"

namespace annulus::strategies {

/// `group`: ranks of a group of consecutive ranks.
Prediction predict_heads(const ForwardPass& across, const Problem& problem, const pattern::Partition& partition,
                         int group, int rank);
core::RankMetrics run_heads(const ForwardPass& across, const Problem& problem, const pattern::Partition& partition,
                            int group, const comm::Communicator& comm, Tensors& tensors, const Progress& progress);

Prediction predict_heads(const BackwardPass& across, const Problem& problem, const pattern::Partition& partition,
                         int group, int rank);
core::RankMetrics run_heads(const BackwardPass& across, const Problem& problem, const pattern::Partition& partition,
                            int group, const comm::Communicator& comm, Tensors& tensors, const Progress& progress);

/// Query heads of one K/V head go to several of `ranks` ranks.
bool splits_groups(const core::Shape& shape, Index ranks);

}  // namespace annulus::strategies
