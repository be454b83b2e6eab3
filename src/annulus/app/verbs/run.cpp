// `annulus run`: computes a run file, or shows what it would do (dry run).
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/slices.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/app/summary/summary.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/report/trace_file.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/fingerprint.hpp"
#include "annulus/store/row_reading.hpp"
#include "annulus/verify/result.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

struct Given {
  RunFileArguments words;
  bool dry_run = false;
  bool restart = false;
  std::optional<int> ranks, rank;  ///< for a dry run
};

/// True if the run may be cut into several units. Then several launches may work on the run together.
bool is_shared(const Job& job) { return job.is_streamed() || job.slice_count() > 1; }

/// Attributes of /provenance by which a task of a job array recognizes the result of another task: the array's job ID,
/// and samples of the input's files. Call it on rank 0.
std::vector<std::pair<std::string, std::string>> array_provenance(const Job& job) {
  const char* const array = std::getenv("SLURM_ARRAY_JOB_ID");
  std::vector<std::pair<std::string, std::string>> entries{{"array_job_id", array == nullptr ? "" : array}};
  std::vector<std::string> samples;
  if (job.input) samples.push_back(store::sample_of(job.input->inspected().path));
  for (const auto& [file, state] : job.other_input_files()) samples.push_back(store::sample_of(file));
  entries.emplace_back("input_sample", fmt::format("{}", fmt::join(samples, "; ")));
  return entries;
}

/// True if a result was made from the input of this job and, with output.overwrite, by the same job array. Without
/// output.overwrite, any earlier launch may have made the result. Call it on rank 0.
bool is_of_this_array(const Job& job, const std::string& result) {
  const bool replaces = job.run.settings.output.overwrite;
  for (const auto& [name, now] : array_provenance(job)) {
    const std::optional<std::string> then = store::read_text_attribute(result, name, "provenance");
    const bool must_be_equal = name == "input_sample" || replaces;
    if (must_be_equal && (then != now || (name == "array_job_id" && now.empty()))) return false;
  }
  return true;
}

/// True if a result was made by this program, with the job's compute.reproducible and compute.backend. These change
/// only the bits of a result, so verify::open_result() does not compare them. Call it on rank 0.
bool has_bits_of(const Job& job, const std::string& result) {
  const runfile::ComputeSettings made = verify::settings_of_result(result).settings.compute;
  const runfile::ComputeSettings& asked = job.run.settings.compute;
  const auto is_made_by = [&](const char* name, const char* now) {
    return store::read_text_attribute(result, name, "provenance") == now;
  };
  return made.reproducible == asked.reproducible && made.backend == asked.backend &&
         is_made_by("version", annulus::version) && is_made_by("git_commit", annulus::git_commit);
}

/// True if other tasks of the job array have already made the result of this run file. Collective.
bool is_finished_by_others(const Job& job, const comm::Communicator& comm) {
  const bool may_be = is_shared(job) && job.run.settings.output.writes_file();
  if (!may_be || comm.max(Index(std::getenv("SLURM_ARRAY_TASK_ID") != nullptr)) == 0) return false;
  try {
    const store::InspectedFile result = verify::open_result(job.run, job.results, comm);
    const Index made = result.state.modified;
    const auto look = [&] {
      return std::vector<Index>{Index(is_of_this_array(job, result.path) && has_bits_of(job, result.path))};
    };
    if (comm::numbers_from_root(comm, look).at(0) == 0) return false;
    Index changed = job.input ? job.input->inspected().state.modified : 0;
    for (const auto& [file, state] : job.other_input_files()) changed = std::max(changed, state.modified);
    return comm.max(Index(changed > made)) == 0;  // the result must be newer than the input's files
  } catch (const comm::AgreedError&) {            // there is no result, or it is another run's
    return false;
  }
}

Job job_of(const Given& given, const comm::Communicator& comm) {
  Request request = read_request(given.words, Purpose::run, comm);
  JobOptions options{given.words, Purpose::run, given.ranks};
  options.stream = planner::StreamOffer::if_needed;
  try {  // with --ranks, a run on other ranks is only planned, and continues nothing
    if (!given.ranks) options.recorded = recorded_cuts(request, given.restart, comm);
  } catch (const comm::AgreedError&) {
    if (!given.dry_run) throw;  // a dry run goes on, and warn_of_refusal() says why a real run would fail
  }
  return make_job(std::move(request), options, comm);
}

/// Computes a checked job. When all units of a file are finished, calls `finish` with the measurements; `finish`
/// returns the record for the file. Returns the measurements; empty if units are unfinished, and `rest` then says why.
/// Collective.
std::optional<report::Measurements> compute_all(const Job& job,
                                                const std::function<store::Record(const report::Measurements&)>& finish,
                                                const comm::Communicator& comm, WhyUnfinished& rest) {
  if (job.is_streamed()) return compute_blocks(job, finish, comm, rest);
  Tally tally;
  std::optional<report::Measurements> measured;
  rest = compute_slices(job, comm, tally, [&] { return finish(measured.emplace(tally.gathered(job, comm))); });
  if (!rest.words.empty()) return std::nullopt;
  if (!measured) measured = tally.gathered(job, comm);
  return measured;
}

/// Returns attributes of /provenance for what the input needs besides input.file: other files with its numbers, and
/// filters that are not part of HDF5. If is_shared(), also returns array_provenance(). Collective.
std::vector<std::pair<std::string, std::string>> input_provenance(const Job& job, const comm::Communicator& comm) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<std::string> names;
  for (const auto& [name, state] : job.other_input_files()) names.push_back(name);
  if (!names.empty()) entries.emplace_back("other_input_files", fmt::format("{}", fmt::join(names, ", ")));
  if (is_shared(job)) {
    std::vector<std::pair<std::string, std::string>> of_array;
    comm::on_root(comm, [&] { of_array = array_provenance(job); });
    entries.insert(entries.end(), of_array.begin(), of_array.end());
  }
  const std::string plugins = comm::from_root(comm, [&]() -> std::string {
    if (!job.input || job.layer) return "";
    return fmt::format("{}", fmt::join(store::filter_plugins_of(job.input->inspected()), ", "));
  });
  if (!plugins.empty()) entries.emplace_back("filter_plugins", plugins);
  return entries;
}

/// Says on stderr why a run would be refused although the job can be computed: an output file exists, its folder is
/// missing, or an interrupted run of this output had other settings. Collective.
void warn_of_refusal(const Job& job, bool restart, const comm::Communicator& comm) {
  const runfile::OutputSettings& output = job.run.settings.output;
  std::string why;
  try {
    comm::on_root(comm, [&] {
      const auto check = [&](const std::string& file) {
        store::check_can_be_made(runfile::follow_links(file), output.overwrite);
      };
      if (output.writes_file()) check(output.file);
      if (output.report) check(*output.report);
      if (output.trace) check(*output.trace);
    });
    recorded_cuts(job, restart, comm);
  } catch (const comm::AgreedError& error) {
    why = error.what();
  }
  if (!why.empty() && comm.is_root()) core::print_to_stderr("annulus: warning: a run would end at once: {}\n", why);
}

int run_once(const Given& given, const comm::Communicator& comm, const std::string& command_line) {
  const Job job = job_of(given, comm);
  if (given.dry_run) {
    const int parts = job.is_streamed() ? int(job.partition.size()) : job.ranks;
    comm::agree(comm, [&] {
      if (!given.rank || *given.rank < parts) return;
      core::fail(core::ErrorKind::usage, "run --rank {}: there are {} {}, counted from 0", *given.rank, parts,
                 job.is_streamed() ? "blocks" : "ranks");
    });
    dry_run(job, given.rank, comm);
    warn_of_refusal(job, given.restart, comm);
    comm::agree(comm, [&] { check_memory_limit(job); });  // last, because the printed numbers say what would fit
    return 0;
  }
  if (!is_shared(job)) end_on_signals(comm, nothing_saved);
  comm::agree(comm, [&] {
    check_memory_limit(job);
    core::require_device();
  });
  const runfile::Settings& settings = job.run.settings;
  if (is_finished_by_others(job, comm)) {
    if (comm.is_root())
      std::fprintf(stderr, "annulus: %s is complete: other tasks made it\n", settings.output.file.c_str());
    return 0;
  }
  if (comm.is_root() && !job.why_too_large.empty())
    std::fprintf(stderr, "annulus: warning: %s\n", job.why_too_large.c_str());
  // Says how the input was understood, before hours of work.
  if (comm.is_root()) std::fprintf(stderr, "annulus: %s\n", describe_tensors(job).c_str());
  choose_links(settings.distribution, comm);
  std::optional<store::AtomicFile> report_file;  // exists on rank 0
  // If several launches work on a run, the launch that completes the run writes the report.
  const auto make_report = [&] { report_file.emplace(*settings.output.report, settings.output.overwrite); };
  comm::on_root(comm, [&] {
    if (!settings.output.report) return;
    is_shared(job) ? store::check_can_be_made(runfile::follow_links(*settings.output.report), settings.output.overwrite)
                   : make_report();
  });
  std::optional<report::TraceFile> trace;
  if (settings.output.trace) trace.emplace(*settings.output.trace, settings.output.overwrite, comm);
  const auto of_input = input_provenance(job, comm);
  const auto record = [&](const report::Measurements& measured) -> store::Record {
    auto about = provenance(command_line, comm);
    about.insert(about.end(), of_input.begin(), of_input.end());
    return {runfile::resolved_text(settings), report::columns(measured), about, identity(title_of(job)),
            decisions(job)};
  };
  if (given.restart && settings.output.writes_file()) forget_earlier(job, comm);
  WhyUnfinished rest;
  std::optional<report::Measurements> measured;
  try {
    measured = compute_all(job, record, comm, rest);
  } catch (const comm::AgreedError&) {  // perhaps because other tasks have completed the result
    if (!is_finished_by_others(job, comm)) throw;
    rest.words = settings.output.file + " is complete: other tasks made it";
  }
  if (!measured) {
    if (comm.is_root()) {
      std::fprintf(stderr, "annulus: %s\n", rest.words.c_str());
      if (trace) std::fprintf(stderr, "annulus: no output.trace: this launch did not complete the run\n");
    }
    // Rank 0's status counts, because rank 0 read the journal last. Other ranks may not know of launches that began
    // after they had read it.
    return int(comm::numbers_from_root(comm, [&] { return std::vector<Index>{rest.status}; })[0]);
  }
  const report::Json ran = run_entries(job, comm);
  comm::on_root(comm, [&] {
    if (settings.output.report && !report_file) make_report();
    if (report_file) report::write_report(*report_file, report_entries(job, *measured, ran));
  });
  if (comm.is_root()) print_summary(job, *measured);
  if (trace) trace->finish(identity(title_of(job)));  // last: the result is complete even if this fails
  return 0;
}

int run(Given given, const comm::Communicator& comm, const std::string& command_line) {
  try {
    return run_once(given, comm, command_line);
  } catch (const AnotherLaunchBegan&) {
    given.restart = false;  // the old run is already removed, and the other launch's must stay
    return run_once(given, comm, command_line);
  }
}

}  // namespace

Verb run_verb() {
  const auto given = std::make_shared<Given>();
  return {.name = "run",
          .does = "Compute attention as the run file says: HDF5 in, HDF5 out",
          .example = "mpirun -n 2 annulus run my.yaml --set 'attention.segments=[128, all]'",
          .options = {run_file(given->words.file),
                      overrides(given->words.overrides, "Override a key: --set attention.causal=false (repeatable)"),
                      flag("--dry-run", given->dry_run,
                           "Check everything and show partition, memory and traffic; compute nothing"),
                      flag("--restart", given->restart,
                           "Forget what an earlier, interrupted run of this file has finished, and begin anew"),
                      whole("--ranks", given->ranks, rank_counts,
                            "With --dry-run: plan for this many ranks, up to 65536, instead of those launched"),
                      whole("--rank", given->rank, runfile::WholeRange{0, rank_counts.most - 1},
                            "With --dry-run: show this rank's schedule, step by step")},
          .run = [given](const comm::Communicator& comm,
                         const std::string& command_line) { return run(*given, comm, command_line); },
          .complaint =
              [given] {
                if (given->rank && !given->dry_run) return "run --rank requires --dry-run";
                return given->ranks && !given->dry_run
                           ? "run --ranks requires --dry-run; ranks that compute are the launcher's: mpirun -n RANKS "
                             "annulus run ..., or srun --kill-on-bad-exit=1 -n RANKS annulus run ..."
                           : "";
              },
          .when_ended =
              "what an earlier launch has finished stays so, this one has kept nothing: run again to continue or "
              "to begin"};
}

}  // namespace annulus::app
