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
#include "annulus/pattern/traffic.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::planner {

using core::Index;
using strategies::CommunicationPattern;
using strategies::CommunicationShape;
using strategies::Prediction;
using strategies::Problem;
using strategies::Strategy;

/// RankCounts of every rank; bytes of all batch entries.
struct RankCounts {
  std::vector<double> kept;
  std::vector<double> sent;
  std::vector<double> received;
  std::vector<double> messages;  ///< that arrive
  std::vector<double> copied;    ///< collected from a rank's own memory before they can travel; empty: none
  std::vector<double> calls;     ///< of the kernel: a pair and a block of keys each; empty: not counted
  std::vector<double> rows;      ///< of one head and a pair each, that the kernel packs; empty: not counted
  double communicators = 0;      ///< made and freed
  double windows = 0;
  std::vector<double> intervals;  ///< intervals of rows that stand alone; empty: the whole sequence is one
  /// Of these, what the all-to-all inside groups brings: nothing hides it.
  std::vector<double> group_received, group_messages;
  double memory = 0;  ///< bytes of the fullest rank, at most
  double window = 0;  ///< of these in windows that other ranks read, which need room in shared memory
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

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

/// Closed forms of one partition, shared by all strategies that use it.
struct Counted {
  std::vector<double> kept;                        ///< per rank, one batch entry
  std::vector<double> intervals;                   ///< per rank
  pattern::TrafficCounts traffic;                  ///< of the forward pass
  std::optional<pattern::TrafficCounts> backward;  ///< where gradients are asked for
};
/// Reproducible: `backward.ring_sums` counts sums that are added up in one order (pattern::ordered_gradients()).
Counted count(const Problem& problem, const pattern::Partition& partition);
pattern::TrafficCounts backward_traffic(const Problem& problem, const pattern::Partition& partition);

/// Counts of the rows of all passes over a problem.
pattern::TrafficCounts traffic_of(const Problem& problem, const pattern::Partition& partition);

/// RankCounts of a strategy by the closed form of its shape; `counted` belongs to `partition`. A strategy of unknown
/// shape is asked rank by rank, up to largest_enumerated ranks; beyond there is nothing to say.
inline constexpr int largest_enumerated = 64;
std::optional<RankCounts> rank_counts_of(const Strategy& strategy, const Problem& problem,
                                         const pattern::Partition& partition, const Counted& counted);

/// The same of the backward pass, `counted` having its counts. Its work is 2.5 times the forward pass's. Reproducible:
/// bytes are as good as the counts, messages an estimate.
std::optional<RankCounts> backward_rank_counts_of(const Strategy& strategy, const Problem& problem,
                                                  const pattern::Partition& partition, const Counted& counted);

/// A forward pass and its backward pass, one after the other.
Cost sum_of(const Cost& forward, const Cost& backward);

Cost cost_of(const RankCounts& counts, const CommunicationShape& shape, const Problem& problem,
             const core::Machine& machine);

}  // namespace annulus::planner
