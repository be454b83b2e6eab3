// RankCounts of the backward pass: K and V once more, and the sums of their gradients on their way back.
#include <set>

#include "annulus/planner/cost.hpp"
#include "annulus/planner/group_counts.hpp"
#include "annulus/planner/rank_counts.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/heads/head_groups.hpp"

namespace annulus::planner {
namespace {

using pattern::Partition;
using pattern::Traffic;

/// Both ways of one kind of exchange: rows as in the forward pass, and sums, of which a rank sends and receives
/// `messages` at a time at most. Sums in one order go from neighbour to neighbour, however the rows move.
struct Ways {
  const Traffic& rows;
  Traffic sums;
  int messages;
  bool in_order = false;
};
Ways ways_of(const Problem& problem, const pattern::TrafficCounts& traffic, CommunicationPattern pattern) {
  if (problem.reproducible)
    return {pattern == CommunicationPattern::direct ? traffic.direct : traffic.ring, traffic.ring_sums, 2, true};
  switch (pattern) {
    case CommunicationPattern::ring:
    case CommunicationPattern::heads:
    case CommunicationPattern::heads_in_ring:
      return {traffic.ring, traffic.ring_sums, 2};
    case CommunicationPattern::both_ways:
      return {traffic.both_ways, traffic.both_ways_sums, 2};
    default: {
      // The sums of what was received go straight back.
      const Traffic& rows = traffic.direct;
      return {rows, {rows.sent, rows.received, rows.messages, rows.largest}, 1};
    }
  }
}

void add_ways(const Problem& problem, const Ways& ways, RankCounts& counts) {
  add_traffic(ways.rows, kv_bytes(problem, 1.0), counts);
  counts.copied = counts.sent;  // sums leave from where they are
  add_traffic(ways.sums, sum_bytes(problem, 1.0), counts);
  for (std::size_t p = 0; p < counts.copied.size(); ++p) {  // what arrives is added to what is there
    counts.copied[p] += double(ways.sums.received[p]) * sum_bytes(problem, 1.0);
  }
}

/// Buffers where sums travel in order: rows as in channel_bytes(); of sums what arrives, what comes back, what leaves,
/// and a block in the form of the rows. Slices may be fullest on different ranks, but hold no more than all of a rank's
/// rows.
double ordered_bytes(const Problem& problem, const Ways& ways, Index most, Index hops) {
  const Index whole = (most + 2) * problem.shape.kv_heads;
  const double rows = double(std::min(2 * ways.rows.largest, whole)),
               sums = double(std::min(2 * ways.sums.largest, whole));
  return double(1 + std::min<Index>(2, hops)) * kv_bytes(problem, rows) + 4 * sum_bytes(problem, sums);
}

/// Buffers of a channel: a block to send and one or two that arrive; as many blocks of sums, and what of them is
/// collected to leave and arrives at once, at most. `most` are the rows of the fullest rank.
double channel_bytes(const Problem& problem, const Ways& ways, Index most, Index hops) {
  if (ways.in_order) return ordered_bytes(problem, ways, most, hops);
  const double blocks = double(std::min<Index>(2, hops)), rows = double(ways.rows.largest);
  return (1 + blocks) * kv_bytes(problem, rows) + blocks * sum_bytes(problem, rows) +
         2.0 * ways.messages * sum_bytes(problem, double(ways.sums.largest));
}

void add_hops(const Problem& problem, const Partition& partition, const Ways& ways, int channels, RankCounts& counts) {
  add_ways(problem, ways, counts);
  const Index hops = Index(parts_of(problem, partition).size()) - 1;
  const Index most = most_rows(partition);
  const double buffers = hops == 0 ? 0 : channels * channel_bytes(problem, ways, most, hops);
  counts.memory = double(backward_memory(problem, most, Index(buffers)));
}

/// Windows for K and V and for the sums, and what keys/window_keys.hpp reads ahead: three blocks, and two of sums.
void add_window(const Problem& problem, const Partition& partition, const Ways& ways, RankCounts& counts) {
  add_ways(problem, ways, counts);
  const Index heads = problem.shape.kv_heads, rows = most_rows(partition), hops = Index(partition.size()) - 1;
  for (std::size_t p = 0; p < partition.size(); ++p) {  // MPI adds what ranks send to the owner's window
    counts.copied[p] =
        kv_bytes(problem, double(partition[p].count() * heads)) + sum_bytes(problem, double(ways.sums.sent[p]));
  }
  const double largest = double(ways.rows.largest), own = double(rows * heads);
  const double reads = double(std::min<Index>(3, hops)) * kv_bytes(problem, largest) +
                       double(std::min<Index>(2, hops)) * sum_bytes(problem, largest);
  const double buffers = std::max(reads, sum_bytes(problem, own) / double(2 * problem.shape.batch));
  counts.window = kv_bytes(problem, own) + sum_bytes(problem, own);
  counts.memory = double(backward_memory(problem, rows, Index(buffers))) + counts.window;
}

/// `sums` are those in one order, of a reproducible problem: they do not go straight to their owner.
void add_gather(const Problem& problem, const Partition& partition, const Traffic* sums, RankCounts& counts) {
  const double n = double(problem.shape.sequence), heads = double(problem.shape.kv_heads);
  const double others = double(partition.size() - 1);
  add_gathered_keys(problem, partition, counts);
  if (sums != nullptr) {
    add_traffic(*sums, sum_bytes(problem, 1.0), counts);
  } else {
    for (std::size_t p = 0; p < partition.size(); ++p) {
      const double own = double(partition[p].count());
      counts.received[p] += others * sum_bytes(problem, own * heads);
      counts.sent[p] += sum_bytes(problem, (n - own) * heads);
      counts.messages[p] += others;
    }
  }
  const double blocks = others == 0 ? 0 : sums != nullptr ? 4 : 3;
  const double largest = sum_bytes(problem, double(most_rows(partition)) * heads);
  const double buffers = kv_bytes(problem, n * heads) + largest * blocks;
  counts.memory = double(backward_memory(problem, most_rows(partition), Index(buffers)));
}

/// Peak bytes of a rank of the fullest group.
double group_memory(const Problem& problem, const Partition& partition, const LoadGroups& groups, const Ways& across) {
  const Partition& rows = groups.rows;
  const auto fullest =
      std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.count() < b.count(); });
  const auto most_keys = std::max_element(groups.narrow.begin(), groups.narrow.end(), [](const auto& a, const auto& b) {
    return std::pair(a.kv_heads, a.heads) < std::pair(b.kv_heads, b.heads);
  });
  double memory = 0;
  // The first of a group has the most heads; another one may read K/V heads of two groups of query heads.
  for (const int member : std::set{0, int(most_keys - groups.narrow.begin())}) {
    const int group = int(groups.size());
    const strategies::HeadGroup of_rank(problem, partition, group, int(fullest - rows.begin()) * group + member);
    const double share = double(of_rank.narrow().shape.kv_heads) / double(problem.shape.kv_heads);
    const double buffers =
        rows.size() == 1 ? 0 : share * channel_bytes(problem, across, fullest->count(), Index(rows.size()) - 1);
    const Index work = backward_work(of_rank.narrow(), fullest->count(), Index(buffers));
    memory = std::max(memory, double(of_rank.backward_memory(work)));
  }
  return memory;
}

/// Heads against rows inside groups, there and back, and the ring across. Bytes inside groups are exact, those across
/// an estimate as in the forward pass, and memory is that of a rank of the fullest group.
void add_heads(const Problem& problem, const Partition& partition, Index group, RankCounts& counts) {
  const core::Shape& s = problem.shape;
  const double batch = double(s.batch),
               scalars = double(problem.head_normalizer_bytes()) + double(core::bytes_of(problem.precision));
  const double head_row = double(problem.head_row_bytes()), head_sums = double(problem.head_row_sum_bytes());
  const LoadGroups groups(s, partition, group);
  double served = 0;  // K/V heads of all members: some are several members'
  for (const core::Shape& narrow : groups.narrow) served += double(narrow.kv_heads);
  const pattern::TrafficCounts traffic = backward_traffic(problem, groups.rows);
  const Ways across = ways_of(problem, traffic, CommunicationPattern::heads_in_ring);
  counts.accuracy = std::max(traffic.accuracy, pattern::Accuracy::estimate);
  share_work(groups, s, 7, counts);
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const std::size_t g = groups.group_of(p);
    const core::Shape& here = groups.narrow_of(p);
    const double own = double(partition[p].count()), others = double(groups.rows[g].count()) - own;
    const double queries = double(here.heads), keys = double(here.kv_heads);
    // q, dout, k, v, normalizers and delta come; dq and the sums of dk and dv go.
    const auto there = [&](double q, double kv) { return 2 * head_row * (q + kv) + scalars * q; };
    const auto back = [&](double q, double kv) {
      return head_row * q + double(problem.sum_parts()) / batch * head_sums * kv;
    };
    counts.group_received.push_back(
        batch * (others * there(queries, keys) + own * back(double(s.heads) - queries, served - keys)));
    const double share = keys / double(s.kv_heads);
    const auto ring = [&](const std::vector<Index>& rows, const std::vector<Index>& sums) {
      return share * (kv_bytes(problem, double(rows[g])) + sum_bytes(problem, double(sums[g])));
    };
    counts.received.push_back(ring(across.rows.received, across.sums.received));
    counts.messages.push_back(double(across.rows.messages[g] + across.sums.messages[g]));
    counts.sent.push_back(batch *
                              (own * there(double(s.heads) - queries, served - keys) + others * back(queries, keys)) +
                          ring(across.rows.sent, across.sums.sent));
  }
  counts.copied = counts.sent;
  counts.memory = group_memory(problem, partition, groups, across);
}

std::optional<RankCounts> moved(const Strategy& strategy, const CommunicationShape& shape, const Problem& problem,
                                const Partition& partition, const Counted& counted) {
  RankCounts counts;
  counts.kept = counted.kept;
  for (double& kept : counts.kept) kept *= backward_work_factor * double(problem.shape.batch);
  if (shape.pattern != CommunicationPattern::none) counts.intervals = counted.intervals;
  if (problem.reproducible && shape.pattern != CommunicationPattern::none) {
    counts.accuracy = std::max(counted.backward->accuracy, pattern::Accuracy::estimate);
  }
  switch (shape.pattern) {
    case CommunicationPattern::none:
      counts.memory = double(backward_memory(problem, most_rows(partition), 0));
      counts.received = counts.sent = counts.messages = std::vector<double>(partition.size());
      return counts;
    case CommunicationPattern::gather:
      add_gather(problem, partition, problem.reproducible ? &counted.backward->ring_sums : nullptr, counts);
      return counts;
    case CommunicationPattern::ring:
    case CommunicationPattern::both_ways:
    case CommunicationPattern::direct:
      counts.accuracy = std::max(counts.accuracy, counted.backward->accuracy);
      add_hops(problem, partition, ways_of(problem, *counted.backward, shape.pattern),
               shape.pattern == CommunicationPattern::both_ways ? 2 : 1, counts);
      return counts;
    case CommunicationPattern::window:
      counts.accuracy = counted.backward->accuracy;
      add_window(problem, partition, ways_of(problem, *counted.backward, shape.pattern), counts);
      return counts;
    case CommunicationPattern::heads:
    case CommunicationPattern::heads_in_ring:
      add_heads(problem, partition, std::max(1, shape.group), counts);
      return counts;
    case CommunicationPattern::store:
      return std::nullopt;
    case CommunicationPattern::unknown:
      break;
  }
  const auto schedule = strategy.backward_schedule(problem, partition);
  std::optional<RankCounts> all =
      enumerated(int(partition.size()), backward_work_factor, 2, [&](int p) { return schedule->predict(p); });
  if (all) all->accuracy = counts.accuracy;
  return all;
}

}  // namespace

std::optional<RankCounts> backward_rank_counts_of(const Strategy& strategy, const Problem& problem,
                                                  const Partition& partition, const Counted& counted) {
  const CommunicationShape shape = strategy.communication(problem, int(partition.size()));
  std::optional<RankCounts> counts = moved(strategy, shape, problem, partition, counted);
  if (counts) add_overheads(shape, problem, partition, 2, *counts);
  return counts;
}

}  // namespace annulus::planner
