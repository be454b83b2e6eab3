// Counts what every rank computes, sends, receives and stores in a pass, for any number of ranks.
//
// Work and traffic come from closed forms (pattern/counts.hpp, pattern/traffic.hpp). Memory comes from the pass's
// schedule: Schedule::most() gives an upper bound for all ranks, from the size of the largest message.
#pragma once

#include <optional>
#include <vector>

#include "annulus/pattern/traffic.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::planner {

using core::Index;
using strategies::CommunicationPattern;
using strategies::CommunicationShape;
using strategies::Problem;
using strategies::Strategy;

enum class Pass { forward, backward };

/// Work of a backward pass divided by the work of a forward pass.
inline constexpr double backward_work_factor = core::backward_flops(1, 1) / core::forward_flops(1, 1);

/// Counts for every rank ([rank] in vectors). Triples, rows and bytes count all batch entries.
struct RankCounts {
  std::vector<double> kept;       ///< (query, key, head) triples; in a backward pass times backward_work_factor
  std::vector<double> sent;       ///< bytes
  std::vector<double> received;   ///< bytes
  std::vector<double> messages;   ///< received messages
  std::vector<double> copied;     ///< bytes copied or added in memory to send or receive messages; empty: none
  std::vector<double> calls;      ///< kernel calls, one per work list and block of keys; empty: not counted
  std::vector<double> rows;       ///< rows of one head that kernels pack, for all pairs together; empty: not counted
  double communicators = 0;       ///< how many communicators are made and freed
  double windows = 0;             ///< how many MPI windows are made and freed
  std::vector<double> intervals;  ///< separate intervals of rows; empty: the whole sequence is one interval
  /// Bytes and messages of the all-to-all exchanges inside groups, not counted in `received` and `messages`. Compute
  /// does not hide them.
  std::vector<double> group_received, group_messages;
  double memory = 0;  ///< an upper bound of the bytes on the rank that needs most
  double window = 0;  ///< the part of `memory` in MPI windows, which must fit into shared memory
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

/// Results of closed forms for one partition. All strategies that use this partition use the same object.
struct Counted {
  std::vector<double> kept;       ///< [rank] triples that the pattern keeps, in one batch entry
  std::vector<double> intervals;  ///< [rank] intervals of key rows
  /// The traffic of all rounds. If the problem asks for gradients, the sums that return are counted, too. For a
  /// reproducible problem `ring_sums` counts sums that go from rank to rank in a fixed order (pattern::OrderedRoute).
  pattern::TrafficCounts traffic;
};
Counted count(const Problem& problem, const pattern::Partition& partition);
/// Counts what ranks exchange in all rounds of a problem.
pattern::TrafficCounts traffic_of(const Problem& problem, const pattern::Partition& partition,
                                  pattern::CountedTraffic counted);

inline constexpr int largest_enumerated = 64;  ///< with more ranks we predict nothing rank by rank
/// Returns what a strategy does in a pass; `counted` is count(problem, partition). For a reproducible problem the bytes
/// of a backward pass are as exact as `counted`, but its messages are an estimate. The result is empty for `stream`.
std::optional<RankCounts> rank_counts_of(const Strategy& strategy, Pass pass, const Problem& problem,
                                         const pattern::Partition& partition, const Counted& counted);

}  // namespace annulus::planner
