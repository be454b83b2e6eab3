// The roles of the loops exchanged: keys stay where they are, and queries travel. Every rank gets the queries of all
// ranks, runs a loop over its own keys alone, and what these give the queries goes home: running softmaxes (m, l, acc),
// which are merged by log-sum-exp; sums of dq, which are added; lists of top rows, of which the best remain. Gradients
// of keys, and what keys received, are made where the keys are and stay there. (In inference this is called pass-Q:
// Yang et al. 2024, arXiv 2411.01783.)
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Passes of a schedule that gathers queries; collective. Ranks are merged in their order, so that the same number of
/// ranks gives the same bits.
core::RankMetrics run_forward_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                      const Progress& progress);
core::RankMetrics run_backward_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                       const Progress& progress);
core::RankMetrics run_statistics_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                         const Progress& progress);

}  // namespace annulus::strategies
