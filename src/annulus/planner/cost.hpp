// What a run will cost before it is run: an alpha-beta model of the messages plus the kernel's rate, for any number of
// ranks.
//   seconds of a rank = kept triples x 4 D x rate + copied bytes x copy rate
//                       + overheads(kernel calls, rows, communicators, windows, intervals that stand alone)
//                       + exposed(messages x alpha + bytes x beta)
// of a forward pass, and where gradients are asked for 2.5 times the compute and the messages of a backward pass
// beside.
//   exposed(t)        = t when nothing overlaps, else t - min(overlap x t, compute)
// and the slowest rank is the run's time: ranks run free, nothing waits for a common hop.
#pragma once

#include "annulus/core/machine.hpp"
#include "annulus/planner/rank_counts.hpp"

namespace annulus::planner {

/// Times are seconds of the slowest rank; compute, exposed, copy and overhead are its parts.
struct Cost {
  double seconds = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;
  double copy_seconds = 0;
  double overhead_seconds = 0;
  double memory_bytes = 0;    ///< fullest rank
  double window_bytes = 0;    ///< fullest rank, of these in windows
  double received_bytes = 0;  ///< busiest rank
  double sent_bytes = 0;      ///< busiest rank
  double total_bytes = 0;     ///< received by all ranks
  double messages = 0;        ///< busiest rank
  double balance = 1;         ///< work of the busiest rank over the mean
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

/// A forward pass and its backward pass, one after the other.
Cost sum_of(const Cost& forward, const Cost& backward);

Cost cost_of(const RankCounts& counts, const CommunicationShape& shape, const Problem& problem,
             const core::Machine& machine);

}  // namespace annulus::planner
