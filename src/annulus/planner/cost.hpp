// Predicts the cost of a run on any number of ranks, from the kernel's rate and the time of messages.
//   seconds of a rank = compute(kept triples x 2 (D + Dv) x seconds per flop + packed rows x seconds per row)
//                       + copied bytes x seconds per copied byte + overheads(calls, communicators, windows, intervals)
//                       + exposed(messages x seconds per message + bytes x seconds per byte)
//   exposed(t)        = t - min(overlap x t, compute) if messages overlap with compute. Otherwise 2 t, because a rank
//                       first sends, then receives; in collectives, which do both at once, t
// Windows are MPI windows. If groups of ranks exchange heads, the time of these messages is added in full. All this is
// for a forward pass. A backward pass has 2.5 times this compute, and its own messages.
//
// We assume that ranks do not wait for each other after each hop. So a run takes as long as its slowest rank.
#pragma once

#include "annulus/core/machine.hpp"
#include "annulus/planner/rank_counts.hpp"

namespace annulus::planner {

/// The cost of a run. Times are seconds of the slowest rank; `seconds` is the sum of the other four times.
struct Cost {
  double seconds = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;  ///< communication that compute does not hide
  double copy_seconds = 0;
  double overhead_seconds = 0;
  double memory_bytes = 0;    ///< of the rank that needs most
  double window_bytes = 0;    ///< of the rank that needs most; only memory in MPI windows
  double received_bytes = 0;  ///< of the busiest rank
  double sent_bytes = 0;      ///< of the busiest rank
  double total_bytes = 0;     ///< received by all ranks together
  double messages = 0;        ///< of the busiest rank
  double balance = 1;         ///< work of the busiest rank divided by the mean
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

/// Returns the cost of both passes: times, bytes and messages are added; memory is the larger of the two.
Cost sum_of(const Cost& forward, const Cost& backward);
/// Returns the cost of `times` equal runs, one after another: times, bytes and messages are multiplied, memory is not.
Cost repeated(Cost cost, Index times);

/// Predicts the cost of one pass from what every rank does in it (rank_counts_of()).
Cost cost_of(const RankCounts& counts, const CommunicationShape& shape, const Problem& problem,
             const core::Machine& machine);

/// Returns the seconds that one rank needs for a GFLOP of the problem's attention while all ranks of its node compute:
/// the machine's time for plain scores, times a factor for the score rule. With a cap, for example, 2 s become 2.2 s.
double seconds_per_gflop(const strategies::Problem& problem, const core::Machine& machine);

}  // namespace annulus::planner
