#include "annulus/planner/cost.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "annulus/kernels/attention.hpp"

namespace annulus::planner {

constexpr std::array added_up{&Cost::seconds,      &Cost::compute_seconds,  &Cost::exposed_seconds,
                              &Cost::copy_seconds, &Cost::overhead_seconds, &Cost::received_bytes,
                              &Cost::sent_bytes,   &Cost::total_bytes,      &Cost::messages};

Cost sum_of(const Cost& forward, const Cost& backward) {
  Cost all = forward;
  for (const auto part : added_up) all.*part += backward.*part;
  all.memory_bytes = std::max(forward.memory_bytes, backward.memory_bytes);
  all.window_bytes = std::max(forward.window_bytes, backward.window_bytes);
  all.accuracy = std::max(forward.accuracy, backward.accuracy);
  return all;
}

Cost repeated(Cost cost, Index times) {
  for (const auto part : added_up) cost.*part *= double(times);
  return cost;
}

namespace {

// Time of a forward pass divided by its time with plain scores, measured in float32 with heads of 64 numbers, on one
// core of an AMD EPYC (Zen 4); see docs/scores.md. We use these factors for backward passes, too, where they are in
// fact smaller.
constexpr double of_cap = 1.10;
constexpr double of_causal_alibi = 1.02;
constexpr double of_alibi = 1.05;  // the nearest keys after a row come last, so the running maximum keeps rising
constexpr double of_alibi_in_plane = 1.07;

double factor_of(const strategies::Problem& problem) {
  const kernels::ScoreRule& rule = problem.rule;
  const double cap = rule.has_cap() ? of_cap : 1;
  if (!rule.has_bias()) return cap;
  return cap * (rule.coordinates ? of_alibi_in_plane : problem.pattern.causal ? of_causal_alibi : of_alibi);
}

double most(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}
double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Returns the seconds that each rank needs for its triples and rows. `busy` has the seconds for the case that all
/// ranks of a node compute all the time. When other ranks are done, a rank also uses the cores of these ranks, but it
/// gets no faster than a rank that is alone on the node. Worked example: 3 ranks have 2 cores, and a rank alone is 1.5
/// times as fast. If `busy` is 1, 2 and 3 s, the result is 1, 2 and 2 s.
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
  const double rate = 4e-9 * problem.shape.mean_dim() * seconds_per_gflop(problem, machine);
  std::vector<double> busy;
  for (std::size_t p = 0; p < counts.kept.size(); ++p) {
    busy.push_back(counts.kept[p] * rate + (counts.rows.empty() ? 0 : counts.rows[p] * machine.seconds_per_row));
  }
  return shared(busy, machine);
}

}  // namespace

double seconds_per_gflop(const strategies::Problem& problem, const core::Machine& machine) {
  const bool any_cut = problem.reproducible && problem.granule == 1;
  const core::Precision products =
      any_cut && core::is_split(problem.precision)
          ? core::Precision::float32
          : kernels::computed_products(problem.shape, problem.precision, problem.rule.any());
  return factor_of(problem) * machine.seconds_per_gflop(problem.shape.head_dim, problem.type, products);
}

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
    // If messages do not overlap with compute, ranks first send, then receive. Only collectives do both at once.
    const bool both_at_once =
        shape.pattern == CommunicationPattern::gather || shape.pattern == CommunicationPattern::queries;
    const double phases = shape.overlapped || both_at_once ? 1 : 2;
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
