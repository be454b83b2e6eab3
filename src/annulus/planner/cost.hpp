// What a run will cost, before it runs: an alpha-beta model of the messages plus the kernel's rate, for any number of
// ranks.
//   seconds of a rank = kept triples x 4 D x rate + copied bytes x copy rate
//                       + overheads(kernel calls, rows, communicators, windows, separate intervals)
//                       + exposed(messages x alpha + bytes x beta)
// These are for a forward pass; with gradients, 2.5 times the compute and the messages of a backward pass are
// added.
//   exposed(t)        = t when nothing overlaps, otherwise t - min(overlap x t, compute)
// The slowest rank's time is the run's time: a rank that is ahead does not wait for others at each hop.
#pragma once

#include "annulus/core/machine.hpp"
#include "annulus/planner/rank_counts.hpp"

namespace annulus::planner {

/// Times are seconds of the slowest rank; `seconds` is the sum of the others.
struct Cost {
  double seconds = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;
  double copy_seconds = 0;
  double overhead_seconds = 0;
  double memory_bytes = 0;    ///< of the fullest rank
  double window_bytes = 0;    ///< of the fullest rank, the part in windows
  double received_bytes = 0;  ///< of the busiest rank
  double sent_bytes = 0;      ///< of the busiest rank
  double total_bytes = 0;     ///< received by all ranks together
  double messages = 0;        ///< of the busiest rank
  double balance = 1;         ///< work of the busiest rank divided by the mean
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

/// Cost of a forward pass and of its backward pass after it.
Cost sum_of(const Cost& forward, const Cost& backward);

Cost cost_of(const RankCounts& counts, const CommunicationShape& shape, const Problem& problem,
             const core::Machine& machine);

}  // namespace annulus::planner
