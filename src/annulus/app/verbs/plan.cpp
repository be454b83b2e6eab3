// `annulus plan`: shows what every strategy costs on any number of ranks, and which one `auto` would choose.
#include <algorithm>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/job.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/core/print.hpp"
#include "annulus/report/text.hpp"

namespace annulus::app {
namespace {

using planner::Candidate;
using report::describe_bytes;

struct Given {
  RunFileArguments words;
  std::optional<int> ranks;
  std::optional<std::string> machine;    ///< machine file
  std::optional<std::string> calibrate;  ///< machine file to make; if it is set, nothing is planned
  bool overwrite = false;                ///< replaces an existing machine file
};

std::string seconds_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * seconds)
                           : fmt::format("{:.1f} us", 1e6 * seconds);
}

/// The mark of the MiB received. A rank that receives nothing, as in strategy stream, has no mark.
std::string_view mark(const planner::Cost& cost) {
  if (cost.received_bytes == 0 || cost.accuracy == pattern::Accuracy::exact) return "";
  return cost.accuracy == pattern::Accuracy::estimate ? "~" : "<";
}

/// Slices and memory of a candidate that must be cut: "  4 x 2.0 GiB" for 4 slices; "  none" if no slice fits. Empty if
/// the candidate need not be cut.
std::string passes_text(const Candidate& candidate, double memory_limit) {
  if (candidate.sliced) {
    return fmt::format("  {} x {}", candidate.sliced->slices, describe_bytes(candidate.sliced->cost.memory_bytes));
  }
  return candidate.cost->memory_bytes > memory_limit ? "  none" : "";
}

void print_candidate(const Candidate& candidate, bool taken, double memory_limit) {
  const std::string partition = candidate.partition ? std::string(pattern::name_of(*candidate.partition)) : "-";
  core::print("{} {:<18} {:<12} ", taken ? '*' : ' ', candidate.strategy->name(), partition);
  if (!candidate.cost) {
    core::print("not predicted for this many ranks\n");
    return;
  }
  const planner::Cost& cost = *candidate.cost;
  const std::string received = fmt::format("{}{:.1f}", mark(cost), cost.received_bytes / (1024 * 1024));
  core::print("{:>10} {:>10} {:>10} {:>11}{} {:>12} {:>9.0f} {:>7.3f}{}\n", seconds_text(cost.seconds),
              seconds_text(cost.compute_seconds), seconds_text(cost.copy_seconds + cost.exposed_seconds),
              describe_bytes(cost.memory_bytes), cost.memory_bytes > memory_limit ? '!' : ' ', received, cost.messages,
              cost.balance, passes_text(candidate, memory_limit));
}

void print_plan(const Job& job) {
  const planner::Choice& choice = *job.choice;
  const core::Machine& machine = job.machine;
  const core::Link& inside = machine.inside_node;
  const core::Link& between = machine.between_nodes;
  const double rate =
      1 / machine.seconds_per_gflop(job.problem.shape.head_dim, job.problem.type, job.problem.precision);
  core::print("annulus plan {}: {}\n  {:<10} {}\n  {:<10} {}\n", job.run.name, core::how_many(job.ranks, "rank"),
              "attention", describe_pattern(job.problem), "tensors", describe_tensors(job));
  if (job.layer) {
    report::print_line("layer", describe_layer(job));
    report::print_line("",
                       "the table is of the layer's attention alone; `annulus run --dry-run` shows the layer's memory");
  }
  core::print(
      "  {:<10} {}: {:.1f} GFLOP/s a rank, {} a node, {} a rank{}, links {:.2g} us + {:.2f} GB/s inside, "
      "{:.2g} us + {:.2f} GB/s between nodes, {:.0f} % hidden\n",
      "machine", machine.source, rate, core::how_many(machine.ranks_per_node, "rank"),
      describe_bytes(machine.memory_per_rank), machine.memory_source.empty() ? "" : " (" + machine.memory_source + ")",
      1e6 * inside.seconds_per_message, 1e-9 / inside.seconds_per_byte, 1e6 * between.seconds_per_message,
      1e-9 / between.seconds_per_byte, 100 * machine.overlap);
  const bool too_large = std::any_of(choice.candidates.begin(), choice.candidates.end(), [&](const Candidate& one) {
    return one.cost && one.cost->memory_bytes > machine.memory_per_rank;
  });
  core::print("\n  {:<18} {:<12} {:>10} {:>10} {:>10} {:>11}  {:>12} {:>9} {:>7}{}\n", "strategy", "partition", "time",
              "compute", "exposed", "memory", "MiB received", "messages", "balance", too_large ? "  passes" : "");
  bool estimate = false, bound = false;
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const Candidate& one = choice.candidates[i];
    print_candidate(one, i == choice.taken, machine.memory_per_rank);
    estimate = estimate || (one.cost && mark(*one.cost) == "~");
    bound = bound || (one.cost && mark(*one.cost) == "<");
  }
  core::print(
      "  time: slowest rank{}; exposed: packing and messages that compute does not hide; memory: fullest rank, at "
      "most (!: too much)\n  MiB received and messages: busiest rank, exact{}{}; balance: its work over the mean\n",
      job.problem.gradients ? ", forward and backward pass" : "",
      estimate ? ", ~ estimated from the distinct kinds of ranks" : "", bound ? ", < at most" : "");
  if (too_large)
    core::print("  passes: number of passes over batch entries and heads x memory of one, if one pass is too large\n");
}

/// Prints the backward pass's part of the costs that print_plan() printed: one line for each strategy, with its
/// cheapest partition.
void print_backward(const Job& job) {
  core::print("\n  of these the backward pass, each strategy with its cheapest partition\n");
  core::print("  {:<18} {:<12} {:>10} {:>10} {:>10} {:>11}  {:>12} {:>12}\n", "strategy", "partition", "time",
              "compute", "exposed", "memory", "MiB received", "MiB sent");
  for (const auto& strategy : strategies::registry()) {
    const Candidate* cheapest = nullptr;
    for (const Candidate& one : job.choice->candidates) {
      if (one.strategy != strategy.get() || !one.backward) continue;
      if (cheapest == nullptr || one.cost->seconds < cheapest->cost->seconds) cheapest = &one;
    }
    if (cheapest == nullptr) continue;
    const planner::Cost& cost = *cheapest->backward;
    core::print("  {:<18} {:<12} {:>10} {:>10} {:>10} {:>11}{} {:>12.1f} {:>12.1f}\n", strategy->name(),
                cheapest->partition ? pattern::name_of(*cheapest->partition) : "-", seconds_text(cost.seconds),
                seconds_text(cost.compute_seconds), seconds_text(cost.copy_seconds + cost.exposed_seconds),
                describe_bytes(cost.memory_bytes), cost.memory_bytes > job.machine.memory_per_rank ? '!' : ' ',
                cost.received_bytes / (1024 * 1024), cost.sent_bytes / (1024 * 1024));
  }
}

int plan(const Given& given, const comm::Communicator& comm) {
  if (given.calibrate) return calibrate(*given.calibrate, given.overwrite, comm);
  JobOptions options{given.words, Purpose::plan, given.ranks, given.machine};
  options.stream = planner::StreamOffer::always;
  const Job job = make_job(options, comm);
  if (!comm.is_root()) return 0;
  print_plan(job);
  if (job.stream) {
    core::print("  stream: {}, {} read by all ranks at {}/s each, {} written\n", describe_blocks(*job.stream),
                describe_bytes(job.stream->bytes_read), describe_bytes(job.machine.read_rate),
                describe_bytes(job.stream->bytes_written));
  }
  if (job.problem.gradients) print_backward(job);
  core::print("auto takes {}\n", job.choice->reason);
  return 0;
}

/// An option whose value is a path. Without the option, `variable` stays empty.
Option path(const std::string& name, std::optional<std::string>& variable, const std::string& help) {
  return {name, "FILE.yaml", help, [&](const std::string& word) { return variable = word, std::string(); },
          [&] { return variable.value_or(""); }};
}

}  // namespace

Verb plan_verb() {
  const auto given = std::make_shared<Given>();
  Option file = run_file(given->words.file);
  file.required = false;
  Option calibrate_file =
      path("--calibrate", given->calibrate, "Measure this machine with the launched ranks and write its machine file");
  calibrate_file.excludes = {file.name, "--ranks", "--machine", "--set"};
  Option overwrite = flag("--overwrite", given->overwrite, "With --calibrate: replace an existing file");
  overwrite.needs = calibrate_file.name;
  return {.name = "plan",
          .does = "Predict time, memory and traffic of every strategy at any number of ranks",
          .example = "annulus plan my.yaml --ranks 1024\n  mpirun -n 2 annulus plan --calibrate this_machine.yaml",
          .options = {file,
                      whole("--ranks", given->ranks, rank_counts,
                            "Ranks to plan for, up to 65536 (default: those launched)"),
                      path("--machine", given->machine,
                           "Machine file (default: distribution.machine, or a built-in machine)"),
                      overrides(given->words.overrides, "Override a key of the run file (repeatable)"), calibrate_file,
                      overwrite},
          .run = [given](const comm::Communicator& comm, const std::string&) { return plan(*given, comm); },
          .complaint =
              [given] {
                const bool nothing = given->words.file.empty() && !given->calibrate;
                return nothing ? "plan: a run file or --calibrate is required" : "";
              }};
}

}  // namespace annulus::app
