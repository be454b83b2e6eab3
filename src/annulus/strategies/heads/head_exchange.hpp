// Ranks of a group exchange rows for heads: each rank gets all rows of the group, for some of the heads. Ranks with
// the same number in their groups then run a pass together, for these heads. After the pass, its results (out and lse,
// or gradients) return to the rows' owners. Besides its own rows a rank needs memory for O(n H / P) rows of one head.
// (Published as DeepSpeed-Ulysses; with a ring across groups, as USP and LoongTrain.)
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Run the passes of a schedule that has groups; collective.
core::RankMetrics run_forward_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                    const Progress& progress);
core::RankMetrics run_backward_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                     const Progress& progress);
core::RankMetrics run_statistics_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                       const Progress& progress);

/// True if query heads that read the same key/value head go to different ranks.
bool splits_groups(const core::Shape& shape, Index ranks);

}  // namespace annulus::strategies
