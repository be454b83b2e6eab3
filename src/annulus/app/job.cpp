#include "annulus/app/job.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "annulus/app/instruction_set.hpp"
#include "annulus/app/machine.hpp"
#include "annulus/app/ranges.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/io/root.hpp"
#include "annulus/strategies/choose.hpp"

namespace annulus::app {
namespace {

using strategies::Problem;

Problem make_problem(const io::Settings& settings, const Job& job) {
  Problem problem;
  const auto take = [&](const auto& file) {
    problem.shape = file.shape();
    problem.type = file.type();
    problem.documents = file.documents();
  };
  if (job.layer) {
    take(*job.layer);
  } else if (job.input) {
    take(*job.input);
  } else {
    problem.shape = settings.input.generate->shape;
    problem.type = settings.input.generate->type;
    problem.documents = {0, problem.shape.sequence};
  }
  problem.precision = settings.compute.precision.value_or(core::default_precision(problem.type));
  problem.scale = settings.attention.scale.value_or(1 / std::sqrt(double(problem.shape.head_dim)));
  problem.pattern = settings.attention.pattern;
  problem.backend = kernels::default_backend();
  problem.partition = settings.distribution.partition;
  problem.block_size = settings.distribution.block_size.value_or(0);
  problem.reproducible = settings.compute.reproducible;
  problem.gradients = settings.compute.backward || settings.train.has_value();
  return problem;
}

/// Refuses tensors so large that sums of bytes and rows over ranks and passes would leave 64 bits: 32 PiB for q, more
/// memory than any machine has. Kept triples are counted in 128 bits.
void check_size(const io::RunFile& run, const Problem& problem) {
  constexpr double most = 0x1p55;
  const core::Shape& s = problem.shape;
  const double bytes = double(s.batch) * double(s.sequence) * double(problem.query_row_bytes());
  if (bytes <= most) return;
  core::fail(core::ErrorKind::usage, "{}input: q of {} would have {:.3g} bytes; expected at most {:.3g}",
             run.where("input"), describe_shape(problem), bytes, most);
}

/// Ranks of a group of `hybrid`: as asked for, or the ranks of a node, made smaller until they divide all ranks. Ranks
/// that are not there are on nodes of the machine that is planned for. Collective.
int ulysses_ranks(const io::RunFile& run, int ranks, const core::Machine& machine, const comm::Communicator& comm) {
  if (const auto asked = run.settings.distribution.ulysses_ranks) {
    if (ranks % *asked == 0) return int(*asked);
    core::fail(core::ErrorKind::usage, "{}distribution.ulysses_ranks: {} does not divide the number of ranks, {}",
               run.where("distribution.ulysses_ranks"), *asked, ranks);
  }
  // The smallest node decides, so that all groups are alike.
  Index size = ranks == comm.size() ? -comm.max(-Index(comm.ranks_of_node())) : machine.ranks_per_node;
  size = std::clamp<Index>(size, 1, ranks);
  while (ranks % size != 0) --size;
  return int(size);
}

/// The strategy of this name; `run` is for the place in the error message.
const strategies::Strategy& named(const io::RunFile& run, const std::string& name) {
  if (const strategies::Strategy* strategy = strategies::find(name)) return *strategy;
  std::vector<std::string> names{"auto"};
  for (const auto& strategy : strategies::registry()) names.emplace_back(strategy->name());
  core::fail(core::ErrorKind::usage, "{}distribution.strategy: there is no strategy '{}'{}; `annulus list` shows them",
             run.where("distribution.strategy"), name, io::suggest(name, names));
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
void decide(Job& job, int ranks) {
  const io::DistributionSettings& settings = job.run.settings.distribution;
  if (settings.strategy != "auto") {
    job.strategy = &named(job.run, settings.strategy);
    check_available(job.run, *job.strategy);
    return;
  }
  const strategies::Choice choice = strategies::choose(job.problem, ranks, settings.local_below, job.machine);
  job.strategy = &choice.strategy();
  job.chosen = true;
  job.reason = choice.reason;
  job.problem.partition = choice.partition();
}

/// Refuses what no strategy can give the same bits for every number of ranks.
void check_can_be_reproducible(const io::RunFile& run) {
  if (!run.settings.compute.reproducible) return;
  if (run.settings.layer) {
    core::fail(
        core::ErrorKind::usage,
        "{}compute.reproducible: a layer cannot give the same bits for every number of ranks: gradients of weights "
        "are summed rank by rank, and matrix products in the order of the machine's BLAS; expected false",
        run.where("compute.reproducible"));
  }
}

/// Refuses a strategy or partition that cannot give the same bits for every number of ranks; to blame is the partition
/// where the strategy could with another one, compute.backward where it could without gradients.
void check_reproducible(const Job& job, int ranks) {
  const strategies::Strategy& strategy = *job.strategy;
  const std::string reason = strategies::disorder(strategy, job.problem, ranks);
  if (reason.empty()) return;
  const bool forward = strategy.not_reproducible(job.problem, ranks).empty();
  strategies::Problem contiguous = job.problem;
  contiguous.partition = pattern::PartitionKind::contiguous;
  if (strategies::disorder(strategy, contiguous, ranks).empty()) {
    core::fail(core::ErrorKind::usage, "{}distribution.partition: {} with strategy {}{} is not reproducible: {}",
               job.run.where("distribution.partition"), pattern::name_of(*job.problem.partition), strategy.name(),
               forward ? " and compute.backward: true" : "", reason);
  }
  const std::string can = fmt::format("{}", fmt::join(strategies::reproducible_strategies(contiguous, ranks), ", "));
  if (forward) {
    core::fail(core::ErrorKind::usage,
               "{}compute.backward: true with strategy {} is not reproducible (compute.reproducible): {}; expected "
               "false or strategy auto, {}",
               job.run.where("compute.backward"), strategy.name(), reason, can);
  }
  core::fail(core::ErrorKind::usage, "{}distribution.strategy: {} is not reproducible: {}; expected auto, {}",
             job.run.where("distribution.strategy"), strategy.name(), reason, can);
}

/// Refuses an absent input file that lies where a shell would look for it: paths of a run file start at its own folder.
void check_input_place(const io::RunFile& run) {
  namespace fs = std::filesystem;
  const auto& file = run.settings.input.file;
  std::error_code ignored;
  if (!file) return;
  const comm::Blocked inside("the look for " + *file);
  if (fs::exists(*file, ignored)) return;
  const fs::path folder = fs::absolute(run.name).parent_path();
  const fs::path written = fs::path(*file).lexically_relative(folder);
  if (written.empty() || !fs::exists(written, ignored)) return;
  core::fail(core::ErrorKind::failure,
             "{}input.file: there is no {}; relative paths start from the folder of the run file, from there write {}",
             run.where("input.file"), *file, fs::relative(written, folder, ignored).string());
}

}  // namespace

Job read_job(const std::string& run_file, const std::vector<std::string>& overrides, const comm::Communicator& comm,
             Purpose purpose) {
  Job job;
  job.run = io::read_run_file(run_file, overrides, comm);
  const io::Settings& settings = job.run.settings;
  comm::set_stall_timeout(settings.distribution.stall_timeout);
  comm::agree(comm, [&] {  // a misspelt strategy is found before any tensor file is opened
    check_can_be_reproducible(job.run);
    if (settings.distribution.strategy != "auto") named(job.run, settings.distribution.strategy);
  });
  io::on_root(comm, [&] { check_input_place(job.run); });
  const bool trains = purpose == Purpose::train;
  comm::agree(comm, [&] {
    if (trains && !settings.train) {
      core::fail(core::ErrorKind::usage, "{}train needs the sections layer and train", job.run.where(""));
    }
  });
  if (settings.layer) {
    job.layer.emplace(settings, io::LayerWants{settings.compute.backward && !trains, trains}, comm);
  } else if (settings.input.file) {
    job.input.emplace(settings.input, comm, settings.compute.backward);
  }
  if (job.input) job.run.settings.input.axes = job.input->order();  // the resolved run file says what was found
  comm::agree(comm, [&] {
    job.problem = make_problem(settings, job);
    check_size(job.run, job.problem);
    check_scale(job.run, job.problem);
    io::check_heads(job.run, job.problem.shape.heads);
  });
  return job;
}

void complete(Job& job, int ranks, const std::optional<std::string>& file, const comm::Communicator& comm) {
  job.machine = machine_of(file ? file : job.run.settings.distribution.machine, ranks == comm.size(), comm);
  comm::agree(comm, [&] { job.problem.ulysses_ranks = ulysses_ranks(job.run, ranks, job.machine, comm); });
}

Job make_job(const std::string& run_file, const std::vector<std::string>& overrides, int ranks,
             const comm::Communicator& comm, Purpose purpose) {
  Job job = read_job(run_file, overrides, comm, purpose);
  job.lesser_tiles = agree_on_instruction_set(comm);  // before memory is predicted: panels depend on it
  complete(job, ranks, std::nullopt, comm);
  comm::agree(comm, [&] {
    decide(job, ranks);
    check_reproducible(job, ranks);
    job.partition = job.strategy->partition(job.problem, ranks);
  });
  return job;
}

std::string describe_pattern(const Problem& problem) {
  const pattern::Pattern& pattern = problem.pattern;
  std::string text =
      fmt::format("{}{}, {} pair{}", pattern::name_of(pattern.semantics), pattern.causal ? ", causal" : "",
                  pattern.pairs.size(), pattern.pairs.size() == 1 ? "" : "s");
  for (const pattern::Pair& pair : pattern.pairs) {
    const bool all = pair.segment == pattern::whole_document;
    text += fmt::format(" ({}, {})", all ? "all" : std::to_string(pair.segment), pair.dilation);
  }
  if (problem.documents.size() > 2) text += fmt::format(", {} documents", problem.documents.size() - 1);
  return text;
}

std::string describe_shape(const Problem& problem) {
  const core::Shape& s = problem.shape;
  const std::string shared = s.kv_heads == s.heads ? "" : fmt::format(" ({} key/value heads)", s.kv_heads);
  return fmt::format("{} x {} rows, {} heads of {}{}, {}", s.batch, s.sequence, s.heads, s.head_dim, shared,
                     core::name_of(problem.type));
}

std::string describe_tensors(const Job& job) {
  const std::string axes = job.input ? fmt::format(" (axes {})", io::name_of(job.input->order())) : "";
  return describe_shape(job.problem) + axes;
}

std::vector<std::string> notes_on(const Problem& problem) {
  std::vector<std::string> notes;
  Index longest = 0;
  for (std::size_t i = 1; i < problem.documents.size(); ++i) {
    longest = std::max(longest, problem.documents[i] - problem.documents[i - 1]);
  }
  const std::string what = problem.documents.size() > 2 ? "the longest document, of" : "the";
  for (const pattern::Pair& pair : problem.pattern.pairs) {
    if (pair.segment == pattern::whole_document || pair.segment <= longest) continue;
    notes.push_back(fmt::format("segment {} is longer than {} {} rows: the same as all", pair.segment, what, longest));
  }
  return notes;
}

std::string describe_reproducible(const Problem& problem) {
  const std::size_t rounds = strategies::passes(problem).size();
  return fmt::format("the same bits for any number of ranks and threads, in {} pass{}", rounds,
                     rounds == 1 ? "" : "es, one per pair");
}

std::string describe_bytes(double bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} {}", bytes, units[unit]) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace annulus::app
