// Counts what every rank receives and sends in each kind of exchange, for any P, without looking at each pair of ranks.
//
// For each owner, counts are added by difference arrays to runs of ranks that read the same rows (readers.hpp), not to
// each of P ranks. Only one of several owners that look alike is evaluated.
#pragma once

#include <vector>

#include "annulus/pattern/plan.hpp"

namespace annulus::pattern {

/// Counts of one kind of exchange; rows are (row, key/value head) pairs as in head_rows().
struct Traffic {
  std::vector<Index> received;  ///< [P]
  std::vector<Index> sent;      ///< [P]
  std::vector<Index> messages;  ///< [P] messages that arrive
  Index largest = 0;            ///< rows of the largest message

  bool operator==(const Traffic&) const = default;
};

/// Says how accurate the counts are.
///   exact      the numbers that the hops of all ranks have
///   estimate   intervals have fewer rows than a dilation, so that not every rank reads every offset; or there are too
///              many kinds of owners, so that owners that differ little are counted as equal
///   bound      ranks hold too many intervals to visit, so the traffic of the dense exchange is counted, which moves
///              the most rows
enum class Accuracy { exact, estimate, bound };

struct TrafficCounts {
  Traffic direct;     ///< From::owners (hops.hpp)
  Traffic ring;       ///< From::neighbours, once round the ring
  Traffic both_ways;  ///< From::neighbours, P / 2 hops upwards and (P - 1) / 2 downwards
  // Sums of gradients on their way back (gradient_hops.hpp), if they are counted. `direct` needs no such counts: for
  // every row that came from its owner, one sum goes straight back to the owner.
  Traffic ring_sums;
  Traffic both_ways_sums;
  Accuracy accuracy = Accuracy::exact;
};

/// Says whether to count only rows, or also the sums of their gradients.
enum class CountedTraffic { rows, rows_and_sums };

/// Counts for all ranks, which compute with the rows in `readers` (readers.hpp); a bound if counting would take more
/// than some seconds (is_affordable()).
TrafficCounts traffic_counts(const Layout& layout, const Partition& owners, const Partition& readers,
                             CountedTraffic counted);

}  // namespace annulus::pattern
