#include "annulus/app/job/job.hpp"

#include <algorithm>

#include "annulus/app/job/instruction_set.hpp"
#include "annulus/app/job/machine.hpp"

namespace annulus::app {
namespace {

/// Ranks of a group of `hybrid`: as asked for, or the ranks of a node, made smaller until they divide all ranks. Ranks
/// that are not there are on nodes of the machine that is planned for.
int ulysses_ranks(const io::RunFile& run, int ranks, Index smallest_node) {
  if (const auto asked = run.settings.distribution.ulysses_ranks) {
    if (ranks % *asked == 0) return int(*asked);
    core::fail(core::ErrorKind::usage, "{}distribution.ulysses_ranks: {} does not divide the number of ranks, {}",
               run.where("distribution.ulysses_ranks"), *asked, ranks);
  }
  Index size = std::clamp<Index>(smallest_node, 1, ranks);  // decides, so that all groups are alike
  while (ranks % size != 0) --size;
  return int(size);
}

/// Refuses a strategy that cannot run here. Only runs ask: what another MPI computed can be verified all the same.
void check_available(const io::RunFile& run, const strategies::Strategy& strategy) {
  const std::string reason = strategy.unavailable();
  if (reason.empty()) return;
  core::fail(core::ErrorKind::usage,
             "{}distribution.strategy: {} cannot run with this MPI: {}; expected auto, or another strategy of "
             "`annulus list`",
             run.where("distribution.strategy"), strategy.name(), reason);
}

/// Sets the strategy, by name or by `auto`, and where `auto` decides that too, the partition.
void decide(Job& job, const Asked& asked) {
  const io::DistributionSettings& settings = job.run.settings.distribution;
  job.strategy = asked.purpose == Purpose::plan ? nullptr : named_strategy(job.run);
  if (job.strategy != nullptr) return check_available(job.run, *job.strategy);
  job.choice = planner::choose(job.problem, job.ranks, settings.local_below, job.machine);
  job.strategy = &job.choice->strategy();
  job.problem.partition = job.choice->partition();
}

/// Refuses a strategy or partition that cannot give the same bits for every number of ranks; to blame is the partition
/// where the strategy could with another one, compute.backward (or output.statistics) where it could without the sums
/// that these need.
void check_reproducible(const Job& job) {
  const int ranks = job.ranks;
  const strategies::Strategy& strategy = *job.strategy;
  const std::string reason = strategies::why_not_reproducible(strategy, job.problem, ranks);
  if (reason.empty()) return;
  const bool forward = strategy.not_reproducible(job.problem, ranks).empty(), gradients = job.problem.gradients;
  const std::string sums = gradients ? "compute.backward: true" : "output.statistics: received";
  strategies::Problem contiguous = job.problem;
  contiguous.partition = pattern::PartitionKind::contiguous;
  if (strategies::why_not_reproducible(strategy, contiguous, ranks).empty()) {
    core::fail(core::ErrorKind::usage, "{}distribution.partition: {} with strategy {}{} is not reproducible: {}",
               job.run.where("distribution.partition"), pattern::name_of(*job.problem.partition), strategy.name(),
               forward ? " and " + sums : "", reason);
  }
  const std::string can = fmt::format("{}", fmt::join(strategies::reproducible_strategies(contiguous, ranks), ", "));
  if (forward) {
    core::fail(core::ErrorKind::usage,
               "{}{} with strategy {} is not reproducible (compute.reproducible): {}; expected {} or strategy auto, {}",
               job.run.where(gradients ? "compute.backward" : "output.statistics"), sums, strategy.name(), reason,
               gradients ? "false" : "none of it", can);
  }
  core::fail(core::ErrorKind::usage, "{}distribution.strategy: {} is not reproducible: {}; expected auto, {}",
             job.run.where("distribution.strategy"), strategy.name(), reason, can);
}

}  // namespace

Nodes nodes_of(const std::optional<std::string>& machine_file, int ranks, const comm::Communicator& comm) {
  const bool here = ranks == comm.size();
  Nodes nodes{machine_of(machine_file, here, comm), 1};
  nodes.smallest = here ? -comm.max(-Index(comm.ranks_of_node())) : nodes.machine.ranks_per_node;
  return nodes;
}

Job make_job(const Asked& asked, const comm::Communicator& comm) {
  return make_job(read_request(asked.words, asked.purpose, comm), asked, comm);
}

Job make_job(Request request, const Asked& asked, const comm::Communicator& comm) {
  Job job(std::move(request));
  job.ranks = asked.ranks.value_or(comm.size());
  job.lesser_tiles = agree_on_instruction_set(comm);  // before memory is predicted: panels depend on it
  if (!job.run.settings.compute.precision) {
    job.problem.precision = kernels::default_precision(job.problem.backend, job.problem.type);
  }
  const std::optional<std::string>& machine = job.run.settings.distribution.machine;
  const Nodes nodes =
      asked.nodes != nullptr ? *asked.nodes : nodes_of(asked.machine ? asked.machine : machine, job.ranks, comm);
  job.machine = nodes.machine;
  comm::agree(comm, [&] {
    job.problem.ulysses_ranks = ulysses_ranks(job.run, job.ranks, nodes.smallest);
    decide(job, asked);
    check_reproducible(job);
    job.partition = job.strategy->partition(job.problem, job.ranks);
    if (job.layer) job.layer->attention = job.problem;
  });
  return job;
}

}  // namespace annulus::app
