// Counts what ranks exchange in all rounds of a problem (rounds_of(), strategies/problem.hpp).
#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/parts.hpp"
#include "annulus/planner/rank_counts.hpp"

namespace annulus::planner {

using pattern::CountedTraffic;
using pattern::Partition;
using pattern::Traffic;
using pattern::TrafficCounts;

namespace {

void add(std::vector<Index>& to, const std::vector<Index>& counts) {
  to.resize(counts.size());
  for (std::size_t p = 0; p < counts.size(); ++p) to[p] += counts[p];
}

/// Adds up the traffic of each rank's parts (pattern/parts.hpp), including messages between parts of the same rank.
TrafficCounts of_ranks(TrafficCounts counts, std::size_t ranks) {
  if (counts.direct.received.size() == ranks) return counts;
  for (Traffic* const traffic : {&counts.direct, &counts.ring, &counts.both_ways, &counts.ring_sums}) {
    for (const auto number : {&Traffic::received, &Traffic::sent, &Traffic::messages}) {
      std::vector<Index>& each = traffic->*number;
      for (std::size_t part = ranks; part < each.size(); ++part)
        each[std::size_t(pattern::rank_of_part(int(part), int(ranks)))] += each[part];
      each.resize(std::min(each.size(), ranks));
    }
  }
  counts.accuracy = std::max(counts.accuracy, pattern::Accuracy::estimate);
  return counts;
}

/// Returns the traffic of sums that are added in a fixed order (OrderedRoute). A rank passes on all sums that it
/// receives for other ranks, and its own sums leave the rank and return. So a rank sends as many sums as it receives.
Traffic ordered_sums(const Problem& problem, const Partition& parts, const Traffic& rows) {
  Traffic sums = rows;
  for (const Problem& round : rounds_of(problem)) {
    const pattern::Layout layout = round.layout();
    const pattern::OrderedRoute route(layout, parts, parts);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Index back = route.rows_sent_back(int(p));
      sums.received[p] += back;
      sums.messages[p] += back > 0;
    }
  }
  sums.sent = sums.received;
  return sums;
}

}  // namespace

TrafficCounts traffic_of(const Problem& problem, const Partition& partition, CountedTraffic counted) {
  if (!problem.reproducible)
    return traffic_counts(problem.layout(), partition, query_rows(problem, partition), counted);
  const Partition parts = ordered_parts(problem, partition).value_or(partition);
  const Partition queries = query_rows(problem, partition);
  TrafficCounts all;
  for (const Problem& round : rounds_of(problem)) {
    const Partition& readers = problem.queries ? queries : parts;
    const TrafficCounts one = traffic_counts(round.layout(), parts, readers, CountedTraffic::rows);
    for (const auto kind : {&TrafficCounts::direct, &TrafficCounts::ring, &TrafficCounts::both_ways}) {
      for (const auto number : {&Traffic::received, &Traffic::sent, &Traffic::messages}) {
        add((all.*kind).*number, (one.*kind).*number);
      }
      (all.*kind).largest = std::max((all.*kind).largest, (one.*kind).largest);
    }
    all.accuracy = std::max(all.accuracy, one.accuracy);
  }
  if (counted == CountedTraffic::rows_and_sums) all.ring_sums = ordered_sums(problem, parts, all.ring);
  return of_ranks(std::move(all), partition.size());
}

}  // namespace annulus::planner
