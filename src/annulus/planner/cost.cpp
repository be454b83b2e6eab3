#include "annulus/planner/cost.hpp"

#include <algorithm>

#include "annulus/pattern/counts.hpp"
#include "annulus/planner/group_counts.hpp"
#include "annulus/planner/rank_counts.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::planner {
namespace {

using pattern::Partition;
using pattern::Traffic;

/// The hop loop: own rows, and per channel a block to send and one or two that arrive.
void add_hops(const Problem& problem, const Partition& partition, const Traffic& traffic, int channels,
              RankCounts& counts) {
  add_traffic(traffic, kv_bytes(problem, 1.0), counts);
  counts.copied = counts.sent;
  const Index hops = Index(parts_of(problem, partition).size()) - 1;
  const double buffers = channels * double(1 + std::min<Index>(2, hops)) * kv_bytes(problem, double(traffic.largest));
  counts.memory = double(local_memory(problem, most_rows(partition), Index(buffers)));
}

/// Windows: own rows and a copy of them, and what keys/window_keys.hpp reads ahead: three blocks.
void add_window(const Problem& problem, const Partition& partition, const Traffic& traffic, RankCounts& counts) {
  add_traffic(traffic, kv_bytes(problem, 1.0), counts);
  for (const pattern::StoredRows& rows : partition)
    counts.copied.push_back(kv_bytes(problem, double(rows.count() * problem.shape.kv_heads)));
  counts.window = most(counts.copied);
  const double reads = double(std::min<Index>(3, Index(partition.size()) - 1));
  counts.memory =
      double(local_memory(problem, most_rows(partition), Index(reads * kv_bytes(problem, double(traffic.largest))))) +
      counts.window;
}

void add_gather(const Problem& problem, const Partition& partition, RankCounts& counts) {
  add_gathered_keys(problem, partition, counts);
  const double n = double(problem.shape.sequence), heads = double(problem.shape.kv_heads);
  counts.memory = double(local_memory(problem, most_rows(partition), Index(kv_bytes(problem, n * heads))));
}

/// Bytes of a row before and after the attention, of one batch entry.
double row_inputs(const Problem& problem) { return double(problem.input_row_bytes()); }
double row_outputs(const Problem& problem) { return double(problem.output_row_bytes()); }

/// Peak bytes of a rank with `own` rows that works on the heads of `narrow` in all `rows` rows of its group; see
/// HeadGroup::memory().
double head_memory(const Problem& problem, const Problem& narrow, Index own, Index rows, double buffers) {
  const double batch = double(problem.shape.batch);
  const double there = double(local_memory(narrow, rows, Index(buffers)));
  const double back = batch * (double(rows) * row_outputs(narrow) + double(own) * row_outputs(problem)) +
                      double(kernel_memory(narrow, rows));
  return batch * double(own) * row_inputs(problem) + std::max(there, back);
}

/// Exchanges of heads inside groups of `group` ranks, after which each works on some heads of all rows of its group,
/// and the ring across the groups with those heads. An estimate in two ways: share_work(), and all K/V heads are taken
/// to move equally many rows.
void add_heads(const Problem& problem, const Partition& partition, Index group, RankCounts& counts) {
  const core::Shape& s = problem.shape;
  const double batch = double(s.batch);
  const LoadGroups groups(s, partition, group);
  Problem here = problem;  // with the heads of the rank at hand
  const pattern::TrafficCounts across = traffic_of(problem, groups.rows);
  const Traffic& ring = across.ring;
  counts.accuracy = std::max(across.accuracy, pattern::Accuracy::estimate);
  share_work(groups, s, problem.gradients ? 5 : 4, counts);
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const std::size_t g = groups.group_of(p);
    here.share = strategies::share_of(problem, core::even_part(s.heads, group, Index(p) % group));
    here.shape = groups.narrow_of(p);
    const Index own = partition[p].count(), rows = groups.rows[g].count();
    const double others = double(rows - own);
    const double head_rows = double(here.shape.kv_heads) / double(s.kv_heads) * kv_bytes(problem, 1.0);
    counts.group_received.push_back(
        batch * (others * row_inputs(here) + double(own) * (row_outputs(problem) - row_outputs(here))));
    counts.received.push_back(head_rows * double(ring.received[g]));
    counts.messages.push_back(double(ring.messages[g]));
    counts.sent.push_back(batch * others * row_outputs(here) +
                          batch * double(own) * (row_inputs(problem) - row_inputs(here)) +
                          head_rows * double(ring.sent[g]));
    counts.memory =
        std::max(counts.memory, head_memory(problem, here, own, rows, 3 * head_rows * double(ring.largest)));
  }
  counts.copied = counts.sent;
}

}  // namespace

Counted count(const Problem& problem, const Partition& partition) {
  const pattern::KeptCounts kept(problem.layout());
  Counted counted;
  for (const pattern::StoredRows& rows : partition) {
    counted.kept.push_back(double(kept.of(rows)));
    counted.intervals.push_back(double(rows.intervals().size()));
  }
  if (problem.gradients) counted.backward = backward_traffic(problem, partition);
  counted.traffic = problem.gradients ? *counted.backward : traffic_of(problem, partition);  // rows move alike
  return counted;
}

namespace {

std::optional<RankCounts> moved(const Strategy& strategy, const CommunicationShape& shape, const Problem& problem,
                                const Partition& partition, const Counted& counted) {
  RankCounts counts;
  counts.kept = counted.kept;
  for (double& kept : counts.kept) kept *= double(problem.shape.batch);
  counts.accuracy = counted.traffic.accuracy;
  if (shape.pattern != CommunicationPattern::none) counts.intervals = counted.intervals;
  switch (shape.pattern) {
    case CommunicationPattern::none:
      counts.memory =
          double(forward_memory(problem, most_rows(partition), query_blocks(problem, most_rows(partition)), 0));
      counts.received = counts.sent = counts.messages = std::vector<double>(partition.size());
      counts.accuracy = pattern::Accuracy::exact;
      return counts;
    case CommunicationPattern::gather:
      add_gather(problem, partition, counts);
      counts.accuracy = pattern::Accuracy::exact;
      return counts;
    case CommunicationPattern::ring:
      add_hops(problem, partition, counted.traffic.ring, 1, counts);
      return counts;
    case CommunicationPattern::both_ways:
      add_hops(problem, partition, counted.traffic.both_ways, 2, counts);
      return counts;
    case CommunicationPattern::direct:
      add_hops(problem, partition, counted.traffic.direct, 1, counts);
      return counts;
    case CommunicationPattern::window:
      add_window(problem, partition, counted.traffic.direct, counts);
      return counts;
    case CommunicationPattern::heads:
    case CommunicationPattern::heads_in_ring:
      add_heads(problem, partition, std::max(1, shape.group), counts);
      return counts;
    case CommunicationPattern::store:
      return std::nullopt;  // stream_cut.hpp
    case CommunicationPattern::unknown:
      break;
  }
  const auto schedule = strategy.forward_schedule(problem, partition);
  return enumerated(int(partition.size()), 1, 1, [&](int p) { return schedule->predict(p); });
}

}  // namespace

std::optional<RankCounts> rank_counts_of(const Strategy& strategy, const Problem& problem, const Partition& partition,
                                         const Counted& counted) {
  const CommunicationShape shape = strategy.communication(problem, int(partition.size()));
  std::optional<RankCounts> counts = moved(strategy, shape, problem, partition, counted);
  if (counts) add_overheads(shape, problem, partition, 1, *counts);
  return counts;
}

Cost sum_of(const Cost& forward, const Cost& backward) {
  Cost all = forward;
  for (const auto part :
       {&Cost::seconds, &Cost::compute_seconds, &Cost::exposed_seconds, &Cost::copy_seconds, &Cost::overhead_seconds,
        &Cost::received_bytes, &Cost::sent_bytes, &Cost::total_bytes, &Cost::messages}) {
    all.*part += backward.*part;
  }
  all.memory_bytes = std::max(forward.memory_bytes, backward.memory_bytes);
  all.window_bytes = std::max(forward.window_bytes, backward.window_bytes);
  all.accuracy = std::max(forward.accuracy, backward.accuracy);
  return all;
}

namespace {

/// Seconds that each rank needs for its triples and rows. `busy` are those while all ranks of a node compute; one that
/// has more work than the others goes on with what of the node they leave it, at most at the speed of a rank alone.
/// Worked example: 3 ranks on 2 cores, alone 1.5 times as fast, with 1, 2 and 3 s of work: done after at most 2 s.
std::vector<double> shared(const std::vector<double>& busy, const core::Machine& machine) {
  std::vector<double> seconds;
  const auto size = std::size_t(machine.ranks_per_node);
  for (std::size_t begin = 0; begin < busy.size(); begin += size) {
    const std::size_t end = std::min(busy.size(), begin + size);
    const double sum = std::accumulate(busy.begin() + Index(begin), busy.begin() + Index(end), 0.0);
    for (std::size_t p = begin; p < end; ++p) {
      seconds.push_back(std::min(busy[p], std::max(busy[p] * machine.single_factor, sum / double(end - begin))));
    }
  }
  return seconds;
}

std::vector<double> compute_seconds(const RankCounts& counts, const Problem& problem, const core::Machine& machine) {
  const double rate = 4e-9 * double(problem.shape.head_dim) *
                      machine.seconds_per_gflop(problem.shape.head_dim, problem.type, problem.precision);
  std::vector<double> busy;
  for (std::size_t p = 0; p < counts.kept.size(); ++p) {
    busy.push_back(counts.kept[p] * rate + (counts.rows.empty() ? 0 : counts.rows[p] * machine.seconds_per_row));
  }
  return shared(busy, machine);
}

}  // namespace

Cost cost_of(const RankCounts& counts, const CommunicationShape& shape, const Problem& problem,
             const core::Machine& machine) {
  const Index ranks = Index(counts.kept.size());
  const auto link_of = [&](Index size) {
    return size <= machine.ranks_per_node ? machine.inside_node : machine.between_nodes;
  };
  const core::Link link = link_of(ranks), group_link = link_of(shape.group);
  const std::vector<double> computes = compute_seconds(counts, problem, machine);
  Cost cost;
  for (std::size_t p = 0; p < counts.kept.size(); ++p) {
    const double compute = computes[p];
    const double copy = counts.copied.empty() ? 0 : counts.copied[p] * machine.seconds_per_copied_byte;
    const double overhead = counts.communicators * machine.seconds_per_communicator +
                            counts.windows * machine.window.seconds_per_message +
                            counts.window * machine.window.seconds_per_byte +
                            (counts.calls.empty() ? 0 : counts.calls[p] * machine.seconds_per_call) +
                            (counts.intervals.empty() ? 0 : counts.intervals[p] * machine.seconds_per_interval);
    // Blocking ranks send, then receive: nobody does both at once.
    const double phases = shape.overlapped || shape.pattern == CommunicationPattern::gather ? 1 : 2;
    const double transfer =
        phases * (counts.messages[p] * link.seconds_per_message + counts.received[p] * link.seconds_per_byte);
    double exposed = shape.overlapped ? transfer - std::min(machine.overlap * transfer, compute) : transfer;
    if (!counts.group_received.empty()) {
      exposed += counts.group_messages[p] * group_link.seconds_per_message +
                 counts.group_received[p] * group_link.seconds_per_byte;
    }
    if (const double seconds = compute + copy + overhead + exposed; seconds > cost.seconds) {
      cost.seconds = seconds;
      cost.compute_seconds = compute;
      cost.copy_seconds = copy;
      cost.overhead_seconds = overhead;
      cost.exposed_seconds = exposed;
    }
  }
  const double group_total = sum(counts.group_received);
  cost.memory_bytes = counts.memory;
  cost.window_bytes = counts.window;
  cost.received_bytes = most(counts.received) + most(counts.group_received);
  cost.sent_bytes = most(counts.sent);
  cost.total_bytes = sum(counts.received) + group_total;
  cost.messages = most(counts.messages) + most(counts.group_messages);
  cost.balance = most(counts.kept) * double(ranks) / std::max(sum(counts.kept), 1.0);
  cost.accuracy = counts.accuracy;
  return cost;
}

}  // namespace annulus::planner
