// What all rounds of a problem move.
#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/parts.hpp"
#include "annulus/planner/rank_counts.hpp"

namespace annulus::planner {

using pattern::Partition;
using pattern::Traffic;

namespace {

/// What goes between parts as traffic of their ranks: a rank's own parts are taken to give each other what others do.
pattern::TrafficCounts of_ranks(pattern::TrafficCounts counts, std::size_t ranks) {
  if (counts.direct.received.size() == ranks) return counts;
  for (Traffic* const traffic : {&counts.direct, &counts.ring, &counts.both_ways, &counts.ring_sums}) {
    for (const auto number : {&Traffic::received, &Traffic::sent, &Traffic::messages}) {
      std::vector<Index>& each = traffic->*number;
      for (std::size_t part = ranks; part < each.size(); ++part)
        each[std::size_t(pattern::rank_of_part(int(part), int(ranks)))] += each[part];
      each.resize(std::min(each.size(), ranks));
    }
    traffic->largest *= 2;  // of both parts together
  }
  counts.accuracy = std::max(counts.accuracy, pattern::Accuracy::estimate);
  return counts;
}

pattern::TrafficCounts traffic_between(const Problem& problem, const Partition& parts) {
  using pattern::TrafficCounts;
  TrafficCounts all;
  for (const Problem& pass : rounds_of(problem)) {
    const TrafficCounts one = traffic_counts(pass.layout(), parts);
    for (const auto kind : {&TrafficCounts::direct, &TrafficCounts::ring, &TrafficCounts::both_ways}) {
      for (const auto number : {&Traffic::received, &Traffic::sent, &Traffic::messages}) {
        add<Index>((all.*kind).*number, (one.*kind).*number, 1);
      }
      (all.*kind).largest = std::max((all.*kind).largest, (one.*kind).largest);
    }
    all.accuracy = std::max(all.accuracy, one.accuracy);
  }
  return all;
}

}  // namespace

Partition parts_of(const Problem& problem, const Partition& partition) {
  if (!problem.reproducible) return partition;
  return ordered_parts(problem, partition).value_or(partition);
}

pattern::TrafficCounts traffic_of(const Problem& problem, const Partition& partition) {
  return of_ranks(traffic_between(problem, parts_of(problem, partition)), partition.size());
}

pattern::TrafficCounts backward_traffic(const Problem& problem, const Partition& partition) {
  if (!problem.reproducible) return traffic_counts(problem.layout(), partition, pattern::CountedTraffic::rows_and_sums);
  const Partition parts = parts_of(problem, partition);
  pattern::TrafficCounts traffic = traffic_between(problem, parts);
  traffic.ring_sums = traffic.ring;
  // What arrives leaves again, forward or back; the own sums leave and come back: both ways are the same bytes.
  for (const Problem& pass : rounds_of(problem)) {
    const pattern::Layout layout = pass.layout();
    const pattern::OrderedRoute route(layout, parts, parts);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Index back = route.rows_sent_back(int(p));
      traffic.ring_sums.received[p] += back;
      traffic.ring_sums.messages[p] += back > 0;
    }
  }
  traffic.ring_sums.sent = traffic.ring_sums.received;
  return of_ranks(std::move(traffic), partition.size());
}

}  // namespace annulus::planner
