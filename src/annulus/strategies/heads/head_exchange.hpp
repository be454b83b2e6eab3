// Rows exchanged for heads inside groups of ranks, and a pass over the problem of some heads across the groups: ranks
// of the same number in their groups run it with their share of the heads; out and lse, or gradients, go back. Memory
// per rank is O(n H / P) beside the rank's own rows. (DeepSpeed-Ulysses; with a ring across: USP, LoongTrain.)
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Passes of a schedule with groups; collective.
core::RankMetrics run_forward_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                    const Progress& progress);
core::RankMetrics run_backward_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                     const Progress& progress);
core::RankMetrics run_statistics_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                       const Progress& progress);

/// Some query heads of one group that share a key/value head go to different ranks.
bool splits_groups(const core::Shape& shape, Index ranks);

}  // namespace annulus::strategies
