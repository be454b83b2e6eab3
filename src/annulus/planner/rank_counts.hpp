// What every rank computes, sends, receives and holds in a pass, for any number of ranks.
//
// Work and traffic come from closed forms (pattern/counts.hpp, pattern/traffic.hpp); memory comes from the pass's
// schedule, which is asked what a rank needs where no message is larger than the largest one (Schedule::most()).
#pragma once

#include <optional>
#include <vector>

#include "annulus/pattern/traffic.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::planner {

using core::Index;
using strategies::CommunicationPattern;
using strategies::CommunicationShape;
using strategies::Prediction;
using strategies::Problem;
using strategies::Strategy;

enum class Pass { forward, backward };

/// Work of a backward pass over that of a forward pass.
inline constexpr double backward_work_factor = core::backward_flops(1, 1) / core::forward_flops(1, 1);

/// Numbers of every rank; bytes are those of all batch entries.
struct RankCounts {
  std::vector<double> kept;  ///< triples, times backward_work_factor in a backward pass
  std::vector<double> sent;
  std::vector<double> received;
  std::vector<double> messages;  ///< that arrive
  std::vector<double> copied;    ///< collected from a rank's own memory before they can travel; empty: none
  std::vector<double> calls;     ///< of the kernel: a pair and a block of keys each; empty: not counted
  std::vector<double> rows;      ///< of one head and a pair each, that the kernel packs; empty: not counted
  double communicators = 0;      ///< made and freed
  double windows = 0;
  std::vector<double> intervals;  ///< intervals of rows that stand alone; empty: the whole sequence is one
  /// The part of these that the all-to-all inside groups brings; no computation hides it.
  std::vector<double> group_received, group_messages;
  double memory = 0;  ///< bytes of the fullest rank, at most
  double window = 0;  ///< of these in windows that other ranks read, which need room in shared memory
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

/// Closed forms of one partition, shared by all strategies that use it.
struct Counted {
  std::vector<double> kept;       ///< per rank, one batch entry
  std::vector<double> intervals;  ///< per rank
  /// The traffic of all rounds, with the returning sums where gradients are asked for. Reproducible: `ring_sums` counts
  /// sums that are added up in one order (pattern::OrderedRoute).
  pattern::TrafficCounts traffic;
};
Counted count(const Problem& problem, const pattern::Partition& partition);
pattern::TrafficCounts traffic_of(const Problem& problem, const pattern::Partition& partition,
                                  pattern::CountedTraffic counted);

/// What a strategy does in a pass; `counted` belongs to `partition`. Reproducible: bytes of a backward pass are as good
/// as the counts, its messages an estimate. A strategy of unknown shape is asked rank by rank, up to largest_enumerated
/// ranks; beyond there is nothing to say.
inline constexpr int largest_enumerated = 64;
std::optional<RankCounts> rank_counts_of(const Strategy& strategy, Pass pass, const Problem& problem,
                                         const pattern::Partition& partition, const Counted& counted);

}  // namespace annulus::planner
