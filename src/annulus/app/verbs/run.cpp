// `annulus run`: the main job, and its dry run.
#include <cstdio>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/app/report/record.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/verbs/dry_run.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/io/root.hpp"

namespace annulus::app {
namespace {

struct Given {
  RunFileWords words;
  bool dry_run = false;
  std::optional<int> ranks, rank;  ///< of a dry run
};

/// From the checked job to the tensors in the file.
Measurements compute(const Job& job, Work& work, const comm::Communicator& comm, const io::ResultFile& file) {
  Measurements measured;
  double read = 0, write = 0;  // seconds
  const auto timed = [](double& sum, const auto& part) {
    const double start = core::wall_seconds();
    part();
    sum += core::wall_seconds() - start;
  };
  core::memory_ledger().reset_peak();
  timed(read, [&] { work.read_inputs(); });
  const Pass forward =
      run_pass(comm, work.name(false), [&](const strategies::Progress& progress) { return work.forward(progress); });
  timed(write, [&] { measured.lse = work.write_outputs(file); });
  std::optional<Pass> backward;
  if (job.run.settings.compute.gradients) {
    check_gradients_mean_something(job, measured.lse);
    core::memory_ledger().reset_peak();
    timed(read, [&] { work.read_gradients(); });
    backward =
        run_pass(comm, work.name(true), [&](const strategies::Progress& progress) { return work.backward(progress); });
    timed(write, [&] { work.write_gradients(file); });
  }
  const comm::Scope place("the gathering of what was measured");
  const bool layer = job.layer.has_value();
  measured.ranks = comm.size();
  measured.read_seconds = comm.max(read);
  measured.write_seconds = comm.max(write);
  measured.forward = gather(forward, work.predicted_bytes(false), layer, comm);
  if (backward) measured.backward = gather(*backward, work.predicted_bytes(true), layer, comm);
  // What belongs to the run as a whole stands beside the forward pass's numbers.
  std::vector<io::Column>& columns = measured.forward.per_rank;
  columns.insert(columns.begin(), per_rank("rows", "row", double(forward.metrics.attention.rows), comm));
  columns.push_back(per_rank("peak_resident_bytes", "byte", double(core::peak_resident_bytes()), comm));
  columns.push_back(per_rank("read_seconds", "s", read, comm));
  columns.push_back(per_rank("write_seconds", "s", write, comm));
  return measured;
}

int run(const Given& given, const comm::Communicator& comm, const std::string& command_line) {
  const Job job = make_job({given.words, Purpose::run, given.ranks}, comm);
  if (given.dry_run) {
    if (given.rank && *given.rank >= job.ranks) {
      core::fail(core::ErrorKind::usage, "run --rank {}: there are {} ranks, counted from 0", *given.rank, job.ranks);
    }
    return dry_run(job, given.rank, comm);
  }
  const io::Settings& settings = job.run.settings;
  // Before hours of work: what the input was taken for.
  if (comm.is_root()) std::fprintf(stderr, "annulus: %s\n", describe_tensors(job).c_str());
  comm::choose_transfers(settings.distribution.gpu_aware, comm, try_device_self_send);
  const std::unique_ptr<Work> work = make_work(job, comm);
  io::ResultFile file({settings.output.file, settings.output.overwrite}, job.results, comm);
  std::optional<io::NewFile> report_file;  // on rank 0
  io::on_root(comm, [&] {
    if (settings.output.report) report_file.emplace(*settings.output.report, settings.output.overwrite);
  });
  const Measurements measured = compute(job, *work, comm, file);
  const comm::Scope place("the completion of the result file");
  file.finish({io::resolved_text(settings), columns(measured), provenance(command_line, comm)});
  io::on_root(comm, [&] {
    if (report_file) io::write_report(*report_file, report(job, measured));
  });
  if (comm.is_root()) print_summary(job, measured);
  return 0;
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
                      whole("--ranks", given->ranks, rank_counts,
                            "With --dry-run: plan for this many ranks, up to 65536, instead of those launched"),
                      whole("--rank", given->rank, io::WholeRange{0, rank_counts.most - 1},
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
          .when_ended = nothing_saved};
}

}  // namespace annulus::app
