#include "annulus/app/job/job.hpp"

#include <algorithm>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/machine.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/print.hpp"
#include "annulus/layer/predict.hpp"
#include "annulus/planner/slice_memory.hpp"
#include "annulus/report/text.hpp"

namespace annulus::app {
namespace {

/// Says why matrix units of some rank cannot make reproducible results (ranks may have different GPUs). Empty if those
/// of all ranks can. Collective.
std::string why_no_granules(const strategies::Problem& problem, const comm::Communicator& comm) {
  std::string why;
  comm::agree(comm,
              [&] { why = kernels::why_no_granules(problem.backend, problem.shape, problem.type, problem.precision); });
  const bool some_cannot = comm.max(Index(!why.empty())) != 0;
  return some_cannot && why.empty() ? "the GPU of another rank has no such units" : why;
}

/// Number of ranks in a group of strategy hybrid: distribution.ulysses_ranks or, without it, the number of ranks on the
/// smallest node, reduced until it divides the number of all ranks.
int ulysses_ranks(const runfile::RunFile& run, int ranks, Index smallest_node) {
  if (const auto asked = run.settings.distribution.ulysses_ranks) {
    if (ranks % *asked == 0) return int(*asked);
    refuse(run, "distribution.ulysses_ranks", ": {} does not divide the number of ranks, {}", *asked, ranks);
  }
  Index size = std::clamp<Index>(smallest_node, 1, ranks);  // so that a group fits into any node
  while (ranks % size != 0) --size;
  return int(size);
}

/// Refuses a strategy that cannot run with this MPI.
void check_available(const runfile::RunFile& run, const strategies::Strategy& strategy) {
  const std::string reason = strategy.unavailable();
  if (reason.empty()) return;
  refuse(run, "distribution.strategy",
         ": {} cannot run with this MPI: {}; expected auto, or another strategy of `annulus list`", strategy.name(),
         reason);
}

/// Says why strategy stream cannot compute this job; empty if it can. Sets `key` to the key of the run file that
/// prevents this.
std::string why_no_stream(const Job& job, std::string& key) {
  const runfile::Settings& settings = job.run.settings;
  const auto because = [&](const char* preventing, std::string text) {
    key = preventing;
    return text;
  };
  if (job.layer) return because("layer", "it reads q, k and v from a file, and a layer makes them");
  if (const std::string why = planner::why_no_stream(job.problem); !why.empty())
    return because("output.statistics", why);
  if (job.problem.partition && *job.problem.partition != pattern::PartitionKind::contiguous)
    return because("distribution.partition", "its blocks are contiguous");
  if (job.problem.queries) return because("input.query_offset", "it needs q and k with the same rows");
  if (!job.problem.gradients) return "";
  if (!settings.output.writes_file())
    return because("output.file", "gradients are computed from what the forward pass wrote to that file");
  const auto stored = settings.output.type;
  if (stored && core::bytes_of(*stored) < core::bytes_of(job.problem.type))
    return because("output.type", "gradients are computed from out, which this type would round");
  return "";
}

/// continues_blocks() is true if the run continues an earlier launch that cut the problem into blocks (strategy
/// stream), continues_slices() if that launch cut it into slices.
bool continues_blocks(const JobOptions& options) { return options.recorded && options.recorded->strategy == "stream"; }
bool continues_slices(const JobOptions& options) {
  return options.recorded && !continues_blocks(options) && options.recorded->numbers.contains("batch_entries") &&
         options.recorded->numbers.contains("kv_heads");
}

/// Cuts a job of strategy stream into blocks, unless choose() has already done so. Refuses the job if stream cannot
/// compute it.
void cut_stream(Job& job, const JobOptions& options) {
  std::string key = "distribution.strategy";
  const std::string why = options.stream == planner::StreamOffer::never
                              ? "it computes block after block into a file, which only `annulus run` does"
                              : why_no_stream(job, key);
  if (!why.empty())
    refuse(job.run, key, ": strategy stream cannot do this: {}; expected another strategy of `annulus list`", why);
  const bool dlse = job.run.settings.input.dlse.has_value();
  if (continues_blocks(options)) job.problem.block_size = options.recorded->numbers.at("block_rows");
  if (!job.stream) job.stream = planner::choose_stream_cut(job.problem, dlse, job.ranks, job.machine);
  job.problem.block_size = job.stream->block_rows;
  job.problem.partition = pattern::PartitionKind::contiguous;
}

/// Sets the strategy that `auto` chooses, and the partition or, for strategy stream, the cut into blocks.
void choose(Job& job, const JobOptions& options) {
  job.choice = planner::choose(job.problem, job.ranks, job.run.settings.distribution.local_below, job.machine,
                               /*in_slices=*/!job.layer, job.file_shape().sequence);
  std::string key;
  if (why_no_stream(job, key).empty()) {
    job.stream = planner::offer_stream(options.stream, job.problem, job.run.settings.input.dlse.has_value(), job.ranks,
                                       job.machine, *job.choice);
  }
  job.strategy = &job.choice->strategy();
  if (!job.is_streamed()) job.problem.partition = job.choice->partition();
}

/// Sets the strategy: the strategy of the launch that the run continues, the strategy that the run file names, or the
/// choice of `auto`.
void decide(Job& job, const JobOptions& options) {
  if (continues_slices(options)) {
    const auto& [strategy, numbers, phases] = *options.recorded;
    job.strategy = strategies::find(strategy);
    core::require(job.strategy != nullptr, [&] { return "no strategy " + options.recorded->strategy; });
    const auto partition = numbers.find("partition");
    job.problem.partition.reset();
    if (partition != numbers.end()) job.problem.partition = pattern::PartitionKind(partition->second);
    return check_available(job.run, *job.strategy);
  }
  job.strategy = options.purpose == Purpose::plan ? nullptr : named_strategy(job.run);
  if (continues_blocks(options)) job.strategy = strategies::find("stream");
  if (job.strategy != nullptr) {
    check_available(job.run, *job.strategy);
  } else {
    choose(job, options);
  }
  if (job.is_streamed()) cut_stream(job, options);
}

/// Refuses a job of strategy stream if a block does not fit into memory, because users choose stream to save memory.
/// Jobs of other strategies get only a warning, unless the user sets the limit (check_memory_limit()). Blocks of an
/// interrupted run are refused only if the user sets the limit, because the free memory is an estimate.
void check_blocks(const Job& job) {
  const core::Machine& machine = job.machine;
  if (job.stream->memory_bytes <= machine.memory_per_rank) return;
  if (job.goes_on && !job.run.settings.compute.memory_limit) return;
  if (job.goes_on) {
    refuse(
        job.run, "compute.memory_limit",
        ": the interrupted run was cut into blocks of {} rows, which take {} with strategy stream; a rank may use {} "
        "({}). Expected more memory; if no launch works on it, `annulus run --restart` cuts it into smaller ones",
        job.stream->block_rows, report::describe_bytes(job.stream->memory_bytes),
        report::describe_bytes(machine.memory_per_rank), machine.why_this_memory());
  }
  const Index apart = job.problem.grid().widest();
  const std::string smaller =
      apart == 1 || job.stream->block_rows > apart
          ? "smaller blocks (distribution.block_size)"
          : fmt::format("compute.reproducible: false (with true, rows can be cut only every {} rows)", apart);
  refuse(job.run, "compute.memory_limit",
         ": a block of {} rows takes {} with strategy stream; a rank may use {} ({}). Expected more memory, or {}",
         job.stream->block_rows, report::describe_bytes(job.stream->memory_bytes),
         report::describe_bytes(machine.memory_per_rank), machine.why_this_memory(), smaller);
}

/// Refuses GPUs of different kinds, because they may round in different ways.
void check_kinds(const Job& job, const std::string& others) {
  if (others.empty()) return;
  refuse(job.run, "compute.reproducible",
         ": true, and ranks have GPUs of different kinds, which may round in different ways: {}; expected GPUs of one "
         "kind, or false",
         others);
}

/// Refuses a reproducible problem in a precision whose products are added in no fixed order.
void check_order(const Job& job) {
  const std::string why = job.problem.reproducible ? why_no_fixed_order(job.problem, job.why_no_granules) : "";
  if (why.empty()) return;
  refuse(job.run, "compute.reproducible", ": true with compute.precision {}: {}; expected false, or another precision",
         core::name_of(job.problem.precision), why);
}

/// Refuses a strategy or partition with which bits depend on the number of ranks. The message names the key to change:
/// the partition, if a contiguous partition is reproducible; otherwise compute.backward (or output.statistics), if the
/// forward pass is reproducible; otherwise the strategy.
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
    refuse(job.run, "distribution.partition", ": {} with strategy {}{} is not reproducible: {}",
           pattern::name_of(*job.problem.partition), strategy.name(), forward ? " and " + sums : "", reason);
  }
  const std::string can = fmt::format("{}", fmt::join(strategies::reproducible_strategies(contiguous, ranks), ", "));
  if (forward) {
    refuse(job.run, gradients ? "compute.backward" : "output.statistics",
           ": {} with strategy {} is not reproducible (compute.reproducible): {}; expected {} or strategy auto, {}",
           gradients ? "true" : "received", strategy.name(), reason, gradients ? "false" : "other statistics", can);
  }
  refuse(job.run, "distribution.strategy", ": {} is not reproducible: {}; expected auto, {}", strategy.name(), reason,
         can);
}

/// The error message if not even one K/V head of one batch entry fits into memory.
std::string explain_too_large(const Job& job, double least) {
  const core::Machine& machine = job.machine;
  std::string key;
  const bool can_stream = why_no_stream(job, key).empty();
  return fmt::format(
      "{}compute.memory_limit: {} with strategy {} needs {} of tensors and buffers on the fullest of {} even in "
      "{} passes of one batch entry and one K/V head; {} may use {} ({}). Expected more memory{}",
      job.run.where("compute.memory_limit"), describe_shape(job), job.strategy->name(), report::describe_bytes(least),
      core::how_many(job.ranks, "rank"), strategies::slices_of(job.problem.shape, {1, 1}),
      job.ranks == 1 ? "it" : "each", report::describe_bytes(machine.memory_per_rank), machine.why_this_memory(),
      can_stream ? ", more ranks, or strategy stream, which reads keys from the input file block by block"
                 : " or more ranks");
}

/// Predicts the memory of a layer, and sets the error message if it is too much. A layer is never cut into slices.
/// Collective: each rank makes some of the predictions, because there is one prediction for each rank, and each takes
/// longer with more ranks.
void look_at_layer_memory(Job& job, Purpose purpose, const comm::Communicator& comm) {
  Index most = 0;
  comm::agree(comm, [&] {
    const pattern::Partition rows = layer::partition_of(*job.layer, *job.strategy, job.ranks);
    for (int rank = comm.rank(); rank < job.ranks; rank += comm.size()) {
      comm::watchdog_progress();
      const layer::MemoryPrediction memory = layer::predict_memory(*job.layer, *job.strategy, rows, rank);
      most = std::max(most, purpose == Purpose::train ? memory.training
                            : job.problem.gradients   ? memory.backward
                                                      : memory.forward);
    }
  });
  job.slice_bytes = double(comm.max(most));
  const core::Machine& machine = job.machine;
  if (job.slice_bytes <= machine.memory_per_rank) return;
  job.why_too_large = fmt::format(
      "{}compute.memory_limit: {} needs {} of tensors and buffers on the fullest of {}; {} may use {} ({}), and "
      "a layer is not computed in passes. Expected more memory or more ranks",
      job.run.where("compute.memory_limit"), describe_layer(job), report::describe_bytes(job.slice_bytes),
      core::how_many(job.ranks, "rank"), job.ranks == 1 ? "it" : "each",
      report::describe_bytes(machine.memory_per_rank), machine.why_this_memory());
}

/// Sets how the problem is cut into slices: as in the launch that the run continues, otherwise into the fewest slices
/// that fit.
void decide_slices(Job& job, const JobOptions& options) {
  job.slices = strategies::whole_of(job.problem.shape);
  if (job.problem.has_own_keys()) job.slices.batch_entries = 1;
  if (job.layer || job.is_streamed()) return;
  const double most = job.machine.memory_per_rank;
  const auto memory = [&](const strategies::SliceSize& size) {
    return planner::slice_memory(*job.strategy, job.problem, job.partition, size, job.machine);
  };
  if (continues_slices(options)) {
    job.slices = {options.recorded->numbers.at("batch_entries"), options.recorded->numbers.at("kv_heads")};
    const double needed = memory(job.slices).alone;
    if (needed > most) {
      job.why_too_large = fmt::format(
          "{}compute.memory_limit: the interrupted run was cut into passes that need {} on the fullest rank; a rank "
          "may use {} ({}){}",
          job.run.where("compute.memory_limit"), report::describe_bytes(needed), report::describe_bytes(most),
          job.machine.why_this_memory(),
          memory(smallest_slices(*job.strategy, job.problem, job.ranks)).alone < needed
              ? ". If no launch works on it, `annulus run --restart` cuts it into smaller ones"
              : "");
    }
  } else {
    const auto fitting = strategies::largest_slices(job.problem.shape, [&](const strategies::SliceSize& one) {
      if (job.problem.has_own_keys() && one.batch_entries > 1) return false;
      return memory(one).alone <= most;
    });
    const auto size = fitting ? largest_that_keeps_bits(*job.strategy, job.problem, *fitting, job.ranks) : std::nullopt;
    if (!fitting) {
      job.why_too_large = explain_too_large(job, memory({1, 1}).alone);
    } else if (!size) {
      job.why_too_large = fmt::format(
          "{}compute.reproducible: {} does not fit into {} at once, and strategy {} is not reproducible in passes of "
          "fewer heads; expected another strategy, more memory or more ranks",
          job.run.where("compute.reproducible"), describe_shape(job), report::describe_bytes(most),
          job.strategy->name());
    }
    // If no slice fits, the limit may be an estimate that is too low. The smallest slices are the most likely to fit.
    job.slices = size ? *size : smallest_slices(*job.strategy, job.problem, job.ranks);
  }
  const planner::SliceMemory needed = memory(job.slices);
  job.reads_ahead = job.slice_count() > 1 && needed.ahead <= most;
  job.slice_bytes = job.reads_ahead ? needed.ahead : needed.alone;
}

/// Returns the choice `mine` of this rank if all ranks choose the same; otherwise `common`. Collective.
template <class Choice>
Choice agreed(Choice mine, Choice common, const comm::Communicator& comm) {
  const std::vector<core::Index> all = comm.gather_all(core::Index(mine));
  return std::equal(all.begin() + 1, all.end(), all.begin()) ? mine : common;
}

}  // namespace

Nodes nodes_of(const std::optional<std::string>& machine_file, int ranks, const comm::Communicator& comm) {
  const bool on_these_ranks = ranks == comm.size();
  Nodes nodes{machine_of(machine_file, on_these_ranks, comm), 1};
  nodes.smallest = on_these_ranks ? -comm.max(-Index(comm.ranks_of_node())) : nodes.machine.ranks_per_node;
  return nodes;
}

pattern::StoredRows Job::held_queries(int rank) const {
  const auto p = std::size_t(rank);
  return problem.queries ? strategies::query_rows(problem, partition)[p] : partition[p];
}

Job make_job(const JobOptions& options, const comm::Communicator& comm) {
  return make_job(read_request(options.words, options.purpose, comm), options, comm);
}

Job make_job(Request request, const JobOptions& options, const comm::Communicator& comm) {
  Job job(std::move(request));
  job.ranks = options.ranks.value_or(comm.size());
  if (!job.run.settings.compute.backend) {
    // Chooses a library if all ranks have it, otherwise our own kernels.
    const kernels::WantedOfBackend wanted = wanted_of(job.run.settings, job.problem);
    job.problem.backend = agreed(kernels::default_backend(wanted), kernels::default_backend(), comm);
  }
  job.instruction_set_note = agree_on_instruction_set(comm);  // before memory is predicted, which depends on the set
  if (!job.run.settings.compute.precision) {
    const strategies::Problem& p = job.problem;
    const bool any_cut = p.reproducible && !strategies::why_not_by_granules(p).empty();
    const auto mine = kernels::default_precision(p.backend, p.type, p.statistics.any(), any_cut);
    job.problem.precision = agreed(mine, core::default_precision(p.type), comm);
  }
  const bool same_bits = job.problem.reproducible;
  const std::string others =
      same_bits && job.problem.backend != kernels::Backend::host ? other_kinds(comm.gather_all(core::gpu_kind())) : "";
  if (same_bits) job.why_no_granules = why_no_granules(job.problem, comm);
  make_reproducible(job.problem, same_bits, job.why_no_granules.empty());
  const std::optional<std::string>& machine = job.run.settings.distribution.machine;
  const Nodes nodes = options.nodes != nullptr ? *options.nodes
                                               : nodes_of(options.machine ? options.machine : machine, job.ranks, comm);
  job.machine = nodes.machine;
  if (const auto limit = job.run.settings.compute.memory_limit) {
    job.machine.memory_per_rank = double(*limit);
    job.machine.memory_source = "compute.memory_limit";
  }
  comm::agree(comm, [&] {
    check_kinds(job, others);
    check_order(job);
    job.problem.ulysses_ranks = ulysses_ranks(job.run, job.ranks, nodes.smallest);
    job.goes_on = continues_blocks(options) || continues_slices(options);
    decide(job, options);
    check_reproducible(job);
    if (job.is_streamed() && options.purpose == Purpose::run) check_blocks(job);
    job.partition = job.strategy->partition(job.problem, job.ranks);
    decide_slices(job, options);
    if (job.layer) job.layer->attention = job.problem;
  });
  if (job.layer && options.purpose != Purpose::plan) look_at_layer_memory(job, options.purpose, comm);
  return job;
}

void check_memory_limit(const Job& job) {
  if (!job.why_too_large.empty() && !job.goes_on && job.run.settings.compute.memory_limit) {
    fail(core::ErrorKind::usage, "{}", job.why_too_large);
  }
}

std::vector<PassKind> passes_of(const strategies::Problem& problem) {
  std::vector<PassKind> all{PassKind::forward};
  if (problem.statistics.need_pass()) all.push_back(PassKind::statistics);
  if (problem.gradients) all.push_back(PassKind::backward);
  return all;
}

std::unique_ptr<const strategies::Schedule> schedule_of(const Job& job, PassKind pass) {
  switch (pass) {
    case PassKind::forward:
      return job.strategy->forward_schedule(job.problem, job.partition);
    case PassKind::statistics:
      return job.strategy->statistics_schedule(job.problem, job.partition);
    case PassKind::backward:
      return job.strategy->backward_schedule(job.problem, job.partition);
  }
  return nullptr;
}

}  // namespace annulus::app
