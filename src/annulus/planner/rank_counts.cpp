#include "annulus/planner/rank_counts.hpp"

#include <algorithm>

#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/traffic_bound.hpp"
#include "annulus/strategies/heads/head_groups.hpp"

namespace annulus::planner {
namespace {

using pattern::CountedTraffic;
using pattern::Partition;
using pattern::Traffic;
using strategies::LargestMessages;

/// Traffic between ranks in a pass: rows of K and V, and sums of these rows' gradients, which return to the owners.
struct Moved {
  Traffic rows, sums;

  LargestMessages largest() const { return {rows.largest, sums.largest}; }
};

Traffic nothing(std::size_t ranks) {
  return {std::vector<Index>(ranks), std::vector<Index>(ranks), std::vector<Index>(ranks)};
}

Traffic rows_moved(CommunicationPattern movement, const Problem& problem, const Partition& partition,
                   const pattern::TrafficCounts& counted) {
  switch (movement) {
    case CommunicationPattern::none:
      return nothing(partition.size());
    case CommunicationPattern::gather:
      return pattern::gathered_traffic(problem.layout(), partition);
    case CommunicationPattern::ring:
    case CommunicationPattern::heads:
    case CommunicationPattern::heads_in_ring:
      return counted.ring;
    case CommunicationPattern::both_ways:
      return counted.both_ways;
    default:
      return counted.direct;
  }
}

/// Returns the traffic of sums. In a reproducible problem sums go from neighbour to neighbour, however rows move. In
/// other problems sums return the way on which their rows came: in a ring, both ways, or directly to the owner.
Traffic sums_moved(CommunicationPattern movement, const Problem& problem, const Traffic& rows,
                   const pattern::TrafficCounts& counted) {
  if (movement == CommunicationPattern::none) return rows;
  const bool in_ring = movement == CommunicationPattern::ring || movement == CommunicationPattern::heads ||
                       movement == CommunicationPattern::heads_in_ring;
  if (problem.reproducible || in_ring) return counted.ring_sums;
  if (movement == CommunicationPattern::both_ways) return counted.both_ways_sums;
  return {rows.sent, rows.received, rows.messages, rows.largest};
}

Moved moved(CommunicationPattern movement, Pass pass, const Problem& problem, const Partition& partition,
            const pattern::TrafficCounts& counted) {
  const Traffic rows = rows_moved(movement, problem, partition, counted);
  if (pass == Pass::forward) return {rows, nothing(partition.size())};
  return {rows, sums_moved(movement, problem, rows, counted)};
}

void add(std::vector<double>& to, const std::vector<Index>& counts, Index factor) {
  to.resize(counts.size());
  for (std::size_t p = 0; p < counts.size(); ++p) to[p] += double(factor * counts[p]);
}

void add_traffic(const Moved& moved, const Problem& problem, RankCounts& counts) {
  for (const auto& [traffic, bytes] : {std::pair{&moved.rows, strategies::kv_bytes(problem, 1)},
                                       std::pair{&moved.sums, strategies::sum_bytes(problem, 1)}}) {
    add(counts.received, traffic->received, bytes);
    add(counts.sent, traffic->sent, bytes);
    add(counts.messages, traffic->messages, 1);
  }
}

/// Adds the bytes that a rank copies or adds. With hops, these are the rows that it sends and the sums that it
/// receives; sums are sent without a copy. With MPI windows, they are the rank's own rows, which it copies into its
/// window, and the sums that it sends, which MPI adds in the owner's memory.
void add_copies(CommunicationPattern movement, const Moved& moved, const Problem& problem, const Partition& partition,
                RankCounts& counts) {
  if (movement == CommunicationPattern::none || movement == CommunicationPattern::gather) return;
  const bool is_window = movement == CommunicationPattern::window;
  std::vector<Index> own;
  for (const pattern::StoredRows& rows : partition) own.push_back(rows.count() * problem.shape.kv_heads);
  add(counts.copied, is_window ? own : moved.rows.sent, strategies::kv_bytes(problem, 1));
  add(counts.copied, is_window ? moved.sums.sent : moved.sums.received, strategies::sum_bytes(problem, 1));
}

/// Two numbers, for queries and for keys: bytes of a row of one head that a group exchanges, or numbers of rows.
struct QueryKeyAmounts {
  double query = 0, key = 0;
  double of(double queries, double keys) const { return query * queries + key * keys; }
};

/// Returns the bytes of a row of one head that go to the rank that computes the head, and the bytes that return.
std::pair<QueryKeyAmounts, QueryKeyAmounts> exchanged(const Problem& problem, Pass pass) {
  const double row = double(problem.head_row_bytes()), value = double(problem.head_value_bytes());
  const double heads = double(problem.shape.heads), kv = row + value;
  if (pass == Pass::forward) return {{row, kv}, {double(problem.output_row_bytes()) / heads, 0}};
  const double scalars = double(problem.head_normalizer_bytes()) + double(core::bytes_of(problem.precision));
  const Index parts = problem.sum_parts() / problem.shape.batch;  // of one batch entry
  const double sums = double(parts * problem.head_row_sum_bytes());
  // q, dout, normalizers, delta, K and V go to that rank; dq and the sums of dK and dV return.
  return {{row + value + scalars, kv}, {row, sums}};
}

/// Counts exchanges of heads inside groups of `size` ranks, and the ring across the groups. A rank computes some heads
/// of all rows of its group. The counts are an estimate: we assume that all heads have equal work, and that the same
/// number of rows moves for each K/V head.
LargestMessages add_heads(const Problem& problem, Pass pass, const Partition& partition, Index size,
                          RankCounts& counts) {
  const core::Shape& s = problem.shape;
  const double batch = double(s.batch);
  const Partition rows = strategies::rows_of_groups(partition, int(size));
  const Partition queries_of = query_rows(problem, partition), all_queries = query_rows(problem, rows);
  std::vector<core::Shape> members;
  double served = 0;  // K/V heads of all members; a head counts once for each member that reads it
  for (Index i = 0; i < size; ++i) {
    members.push_back(strategies::narrowed(s, core::even_part(s.heads, size, i)));
    served += double(members.back().kv_heads);
  }
  const bool with_sums = pass == Pass::backward;
  const pattern::TrafficCounts traffic =
      traffic_of(problem, rows, with_sums ? CountedTraffic::rows_and_sums : CountedTraffic::rows);
  const Moved across = moved(CommunicationPattern::heads_in_ring, pass, problem, rows, traffic);
  RankCounts ring;  // for all heads
  add_traffic(across, problem, ring);
  std::vector<double> kept(rows.size());
  for (std::size_t p = 0; p < partition.size(); ++p) kept[p / members.size()] += counts.kept[p];
  const auto [there, back] = exchanged(problem, pass);
  const int exchanges =
      with_sums ? 7 : 4 + problem.statistics.entropy + problem.has_sums();  // one for each tensor that travels
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const std::size_t g = p / members.size();
    const core::Shape& here = members[p % members.size()];
    const QueryKeyAmounts own{double(queries_of[p].count()), double(partition[p].count())};
    const QueryKeyAmounts others{double(all_queries[g].count()) - own.query, double(rows[g].count()) - own.key};
    const double queries = double(here.heads), keys = double(here.kv_heads), share = keys / double(s.kv_heads);
    const double other_queries = double(s.heads) - queries, other_keys = served - keys;
    counts.kept[p] = kept[g] * queries / double(s.heads);
    counts.group_messages.push_back(double(exchanges) * double(size - 1));
    counts.group_received.push_back(batch * (there.of(others.query * queries, others.key * keys) +
                                             back.of(own.query * other_queries, own.key * other_keys)));
    counts.received.push_back(share * ring.received[g]);
    counts.messages.push_back(ring.messages[g]);
    counts.sent.push_back(batch * (there.of(own.query * other_queries, own.key * other_keys) +
                                   back.of(others.query * queries, others.key * keys)) +
                          share * ring.sent[g]);
  }
  counts.copied = counts.sent;
  counts.accuracy = std::max(traffic.accuracy, pattern::Accuracy::estimate);
  return across.largest();
}

/// Counts kernel calls, rows, communicators and MPI windows. Assumes that half of a backward pass's messages bring K
/// and V.
void add_overheads(const CommunicationShape& shape, Pass pass, const Problem& problem, const Partition& partition,
                   RankCounts& counts) {
  const bool is_none = shape.pattern == CommunicationPattern::none, is_forward = pass == Pass::forward;
  const bool all_queries = shape.pattern == CommunicationPattern::queries;
  const bool at_once = is_none || all_queries || (shape.pattern == CommunicationPattern::gather && !shape.overlapped);
  const double pairs = double(problem.pattern.pairs.size());
  double lists = 0;  // work lists, one kernel call each; a pair whose window has `first` rows has several lists
  for (const pattern::Pair& pair : problem.pattern.pairs)
    lists += double(pattern::visible_parts(pair, problem.pattern.causal).size());
  double each = 0;  // number of combs in which a row is, for all pairs and heads together: the mean over rows
  for (const pattern::Pair& pair : problem.pattern.pairs)
    each += double(problem.shape.heads) / double(pair.window ? 1 : pair.dilation);
  if (problem.pattern.semantics == pattern::Semantics::grouped) each /= pairs;
  const Partition queries = query_rows(problem, partition);
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const Index rows = all_queries ? problem.query_count() : queries[p].count();
    const double blocks = is_none && is_forward ? double(strategies::query_blocks(problem, rows).count()) : 1;
    const double received = at_once ? 0 : counts.messages[p] / (is_forward ? 1 : 2);
    counts.calls.push_back(rows > 0 ? lists * (blocks + received) : 0);
    counts.rows.push_back((is_forward ? 1 : backward_work_factor) * double(problem.shape.batch * rows) * each);
  }
  if (shape.pattern == CommunicationPattern::window) counts.windows = is_forward ? 1 : 2;
  if (!counts.group_messages.empty()) counts.communicators = 2;
}

/// Returns the counts if every rank has all queries. For at most largest_enumerated ranks, Schedule::kept() gives each
/// rank's work. For more ranks, the problem's work is divided in proportion to the ranks' keys.
RankCounts of_all_queries(const strategies::Schedule& schedule, Pass pass, const Counted& counted) {
  const Problem& problem = schedule.problem();
  const int ranks = int(schedule.partition().size());
  const double factor = pass == Pass::forward ? 1 : backward_work_factor;
  double all = 0;
  for (const double kept : counted.kept) all += kept * double(problem.shape.batch);
  const strategies::QueryCosts costs = schedule.query_costs();
  RankCounts counts;
  counts.intervals = counted.intervals;
  for (int p = 0; p < ranks; ++p) {
    const strategies::RowCounts rows = schedule.row_counts(p);
    const double share = double(rows.keys) / double(problem.shape.sequence);
    counts.kept.push_back(factor * (ranks <= largest_enumerated ? double(schedule.kept(p)) : all * share));
    counts.sent.push_back(double(costs.bytes_sent(rows.queries)));
    counts.received.push_back(double(costs.bytes_received(rows.queries)));
    counts.copied.push_back(double(costs.bytes_returned(rows.queries)));
    counts.messages.push_back(double(costs.messages()));
  }
  counts.memory = double(schedule.most({}).memory);
  if (ranks > largest_enumerated) counts.accuracy = pattern::Accuracy::estimate;
  return counts;
}

RankCounts closed_form(const CommunicationShape& shape, const strategies::Schedule& schedule, Pass pass,
                       const Counted& counted) {
  const Problem& problem = schedule.problem();
  const Partition& partition = schedule.partition();
  const bool is_none = shape.pattern == CommunicationPattern::none;
  if (schedule.gathers_queries()) return of_all_queries(schedule, pass, counted);
  RankCounts counts;
  counts.kept = counted.kept;
  for (double& kept : counts.kept)
    kept *= (pass == Pass::forward ? 1 : backward_work_factor) * double(problem.shape.batch);
  if (!is_none) counts.intervals = counted.intervals;
  LargestMessages largest;
  if (shape.pattern == CommunicationPattern::heads || shape.pattern == CommunicationPattern::heads_in_ring) {
    largest = add_heads(problem, pass, partition, std::max(1, shape.group), counts);
  } else {
    const Moved all = moved(shape.pattern, pass, problem, partition, counted.traffic);
    add_traffic(all, problem, counts);
    add_copies(shape.pattern, all, problem, partition, counts);
    if (!is_none && shape.pattern != CommunicationPattern::gather) counts.accuracy = counted.traffic.accuracy;
    largest = all.largest();
  }
  const strategies::Schedule::Most most = schedule.most(largest);
  counts.memory = double(most.memory);
  counts.window = double(most.window);
  return counts;
}

}  // namespace

Counted count(const Problem& problem, const Partition& partition) {
  const pattern::KeptCounts kept(problem.layout());
  Counted counted;
  for (const pattern::StoredRows& rows : query_rows(problem, partition)) counted.kept.push_back(double(kept.of(rows)));
  for (const pattern::StoredRows& rows : partition) {
    counted.intervals.push_back(double(rows.intervals().size()));
  }
  counted.traffic =
      traffic_of(problem, partition, problem.gradients ? CountedTraffic::rows_and_sums : CountedTraffic::rows);
  return counted;
}

std::optional<RankCounts> rank_counts_of(const Strategy& strategy, Pass pass, const Problem& problem,
                                         const Partition& partition, const Counted& counted) {
  const CommunicationShape shape = strategy.communication(problem, int(partition.size()));
  if (shape.pattern == CommunicationPattern::store) return std::nullopt;  // its costs are in stream_cut.hpp
  const auto schedule = pass == Pass::forward ? strategy.forward_schedule(problem, partition)
                                              : strategy.backward_schedule(problem, partition);
  RankCounts counts = closed_form(shape, *schedule, pass, counted);
  if (pass == Pass::backward && problem.reproducible && shape.pattern != CommunicationPattern::none) {
    counts.accuracy = std::max(counts.accuracy, pattern::Accuracy::estimate);
  }
  add_overheads(shape, pass, problem, partition, counts);
  return counts;
}

}  // namespace annulus::planner
