#include "annulus/app/verbs/plan.hpp"

#include <algorithm>

#include "annulus/app/job/job.hpp"
#include "annulus/app/verbs/calibrate.hpp"
#include "annulus/strategies/choose.hpp"

namespace annulus::app {
namespace {

using strategies::Candidate;
using strategies::Choice;

std::string seconds_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * seconds)
                           : fmt::format("{:.1f} us", 1e6 * seconds);
}

std::string_view mark(pattern::Basis basis) {
  switch (basis) {
    case pattern::Basis::exact:
      return "";
    case pattern::Basis::estimate:
      return "~";
    case pattern::Basis::bound:
      return "<";
  }
  return "";
}

void print_line(const Candidate& candidate, bool taken, double memory_limit) {
  const std::string partition = candidate.partition ? std::string(pattern::name_of(*candidate.partition)) : "-";
  fmt::print("{} {:<18} {:<12} ", taken ? '*' : ' ', candidate.strategy->name(), partition);
  if (!candidate.cost) {
    fmt::print("no closed form for so many ranks\n");
    return;
  }
  const strategies::Cost& cost = *candidate.cost;
  const std::string received = fmt::format("{}{:.1f}", mark(cost.basis), cost.received_bytes / (1024 * 1024));
  fmt::print("{:>10} {:>10} {:>10} {:>11}{} {:>12} {:>9.0f} {:>7.3f}\n", seconds_text(cost.seconds),
             seconds_text(cost.compute_seconds), seconds_text(cost.copy_seconds + cost.exposed_seconds),
             describe_bytes(cost.memory_bytes), cost.memory_bytes > memory_limit ? '!' : ' ', received, cost.messages,
             cost.balance);
}

void print_plan(const Job& job, int ranks, const Choice& choice) {
  const core::Machine& machine = job.machine;
  const core::Link& inside = machine.inside_node;
  const core::Link& between = machine.between_nodes;
  const double rate =
      1 / machine.seconds_per_gflop(job.problem.shape.head_dim, job.problem.type, job.problem.precision);
  fmt::print("annulus plan {}: {} rank{}\n  {:<10} {}\n  {:<10} {}\n", job.run.name, ranks, ranks == 1 ? "" : "s",
             "attention", describe_pattern(job.problem), "tensors", describe_tensors(job));
  fmt::print(
      "  {:<10} {}: {:.1f} GFLOP/s a rank, {} ranks a node, {} a rank{}, links {:.2g} us + {:.2f} GB/s inside, "
      "{:.2g} us + {:.2f} GB/s between nodes, {:.0f} % hidden\n",
      "machine", machine.source, rate, machine.ranks_per_node, describe_bytes(machine.memory_per_rank),
      machine.memory_source.empty() ? "" : " (" + machine.memory_source + ")", 1e6 * inside.seconds_per_message,
      1e-9 / inside.seconds_per_byte, 1e6 * between.seconds_per_message, 1e-9 / between.seconds_per_byte,
      100 * machine.overlap);
  fmt::print("\n  {:<18} {:<12} {:>10} {:>10} {:>10} {:>11}  {:>12} {:>9} {:>7}\n", "strategy", "partition", "time",
             "compute", "exposed", "memory", "MiB received", "messages", "balance");
  bool estimate = false, bound = false;
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const Candidate& one = choice.candidates[i];
    print_line(one, i == choice.taken, machine.memory_per_rank);
    estimate = estimate || (one.cost && one.cost->basis == pattern::Basis::estimate);
    bound = bound || (one.cost && one.cost->basis == pattern::Basis::bound);
  }
  fmt::print(
      "  time: slowest rank{}; exposed: packing and messages that compute does not hide; memory: fullest rank, at "
      "most (!: too much)\n  MiB received and messages: busiest rank, exact{}{}; balance: its work over the mean\n",
      job.problem.gradients ? ", forward and backward pass" : "",
      estimate ? ", ~ estimated from the distinct kinds of ranks" : "", bound ? ", < at most" : "");
}

/// Of the times above, the backward pass: a line per strategy, with its cheapest partition.
void print_backward(const core::Machine& machine, const Choice& choice) {
  fmt::print("\n  of these the backward pass, each strategy with its cheapest partition\n");
  fmt::print("  {:<18} {:<12} {:>10} {:>10} {:>10} {:>11}  {:>12} {:>12}\n", "strategy", "partition", "time", "compute",
             "exposed", "memory", "MiB received", "MiB sent");
  for (const auto& strategy : strategies::registry()) {
    const Candidate* cheapest = nullptr;
    for (const Candidate& one : choice.candidates) {
      if (one.strategy != strategy.get() || !one.backward) continue;
      if (cheapest == nullptr || one.cost->seconds < cheapest->cost->seconds) cheapest = &one;
    }
    if (cheapest == nullptr) continue;
    const strategies::Cost& cost = *cheapest->backward;
    fmt::print("  {:<18} {:<12} {:>10} {:>10} {:>10} {:>11}{} {:>12.1f} {:>12.1f}\n", strategy->name(),
               cheapest->partition ? pattern::name_of(*cheapest->partition) : "-", seconds_text(cost.seconds),
               seconds_text(cost.compute_seconds), seconds_text(cost.copy_seconds + cost.exposed_seconds),
               describe_bytes(cost.memory_bytes), cost.memory_bytes > machine.memory_per_rank ? '!' : ' ',
               cost.received_bytes / (1024 * 1024), cost.sent_bytes / (1024 * 1024));
  }
}

}  // namespace

int plan(const PlanOptions& options, const comm::Communicator& comm) {
  if (options.calibrate) return calibrate(*options.calibrate, options.overwrite, comm);
  Job job = read_job(options.run_file, options.overrides, comm);
  const int ranks = options.ranks > 0 ? options.ranks : comm.size();
  complete(job, ranks, options.machine, comm);
  if (!comm.is_root()) return 0;
  const Choice choice = strategies::choose(job.problem, ranks, job.run.settings.distribution.local_below, job.machine);
  print_plan(job, ranks, choice);
  if (job.problem.gradients) print_backward(job.machine, choice);
  fmt::print("auto takes {}\n", choice.reason);
  return 0;
}

}  // namespace annulus::app
