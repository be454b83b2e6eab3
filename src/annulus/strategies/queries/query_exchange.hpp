// Queries travel, and keys stay where they are. Every rank gets the queries of all ranks and runs a loop over its own
// keys alone. The partial results return to the queries' owners. An owner merges the running softmaxes (kernels::State)
// of all ranks, adds their sums of dq and, for the statistic `top`, keeps the rows with the largest weights.
// Gradients of keys, and the statistic `received`, are computed where the keys are, and stay there. (For inference this
// is called pass-Q: Yang et al. 2024, arXiv 2411.01783.)
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Run the passes of a schedule that gathers queries (Schedule::gathers_queries()); collective. Owners merge the ranks'
/// partial results in the order of ranks, so that the same number of ranks always gives the same bits.
core::RankMetrics run_forward_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                      const Progress& progress);
core::RankMetrics run_backward_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                       const Progress& progress);
core::RankMetrics run_statistics_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                         const Progress& progress);

}  // namespace annulus::strategies
