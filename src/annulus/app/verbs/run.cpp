// `annulus run`: the main job, and its dry run.
#include <cstdio>
#include <numeric>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/app/report/progress.hpp"
#include "annulus/app/report/record.hpp"
#include "annulus/app/report/run_entries.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/verbs/dry_run.hpp"
#include "annulus/app/verbs/run_stream.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/trace_file.hpp"

namespace annulus::app {
namespace {

struct Given {
  RunFileWords words;
  bool dry_run = false, restart = false;
  std::optional<int> ranks, rank;  ///< of a dry run
};

/// From the checked job to the tensors in the file, if there is one.
Measurements compute(const Job& job, Work& work, const comm::Communicator& comm, const io::ResultFile* file) {
  Measurements measured;
  double read = 0, write = 0;  // seconds
  const auto timed = [](const char* name, double& sum, const auto& part) {
    core::Span span(name, core::SpanKind::file);
    part();
    sum += span.close();
  };
  core::memory_ledger().reset_peak();
  timed("read", read, [&] { work.read_inputs(); });
  const auto made = [&](PassKind kind) {
    const std::vector<double> flops = comm.gather_all(work.predicted_flops(kind));
    const ProgressLine::Work all{1e-9 * std::accumulate(flops.begin(), flops.end(), 0.0), "GFLOP"};
    return run_pass(comm, work.name(kind), [&] {
      ProgressLine progress(comm.is_root(), all);
      return work.pass(kind, progress.shown());
    });
  };
  const Pass forward = made(PassKind::forward);
  std::optional<Pass> statistics, backward;
  if (job.problem.statistics.need_pass()) {
    core::memory_ledger().reset_peak();
    statistics = made(PassKind::statistics);
  }
  timed("write", write, [&] { measured.lse = work.write_outputs(file); });
  if (job.run.settings.compute.gradients) {
    check_gradients_mean_something(job, measured.lse);
    core::memory_ledger().reset_peak();
    timed("read", read, [&] { work.read_gradients(); });
    backward = made(PassKind::backward);
    timed("write", write, [&] { work.write_gradients(file); });
  }
  const comm::Scope scope("the gathering of what was measured");
  const bool layer = job.layer.has_value();
  measured.ranks = comm.size();
  measured.read_seconds = comm.max(read);
  measured.write_seconds = comm.max(write);
  const auto gathered = [&](const Pass& pass, PassKind kind) {
    PassMeasurements of_ranks = gather(pass, work.predicted_bytes(kind), layer, comm);
    of_ranks.per_sender = per_sender(work.bytes_from(kind), comm);
    return of_ranks;
  };
  measured.forward = gathered(forward, PassKind::forward);
  if (statistics) measured.statistics = gathered(*statistics, PassKind::statistics);
  if (backward) measured.backward = gathered(*backward, PassKind::backward);
  // What belongs to the run as a whole stands beside the forward pass's numbers.
  std::vector<io::Column>& columns = measured.forward.per_rank;
  const auto in_run = [&](const Quantity& quantity, double value) { return per_rank(quantity, value, comm); };
  columns.insert(columns.begin(),
                 in_run({"rows", "1", "rows of the sequence"}, double(forward.metrics.attention.rows)));
  columns.push_back(in_run({"peak_resident_bytes", "bytes", "peak of the process, libraries included"},
                           double(core::peak_resident_bytes())));
  columns.push_back(in_run({"read_seconds", "s", "wall time reading the input"}, read));
  columns.push_back(in_run({"write_seconds", "s", "wall time writing the result"}, write));
  return measured;
}

/// With what an earlier launch, if there is one to go on from, has decided.
Job make_job(const Given& given, const comm::Communicator& comm) {
  Asked asked{given.words, Purpose::run, given.ranks};
  asked.stream = planner::StreamOffer::if_needed;
  Request request = read_request(given.words, Purpose::run, comm);
  if (!given.dry_run) {
    const std::optional<Cuts> recorded = recorded_cuts(request, given.restart, comm);
    if (recorded && recorded->strategy == "stream") asked.block_rows = recorded->numbers.at("block_rows");
  }
  return make_job(std::move(request), asked, comm);
}

int run(const Given& given, const comm::Communicator& comm, const std::string& command_line) {
  const Job job = make_job(given, comm);
  if (given.dry_run) {
    const int parts = job.is_streamed() ? int(job.partition.size()) : job.ranks;
    if (given.rank && *given.rank >= parts) {
      core::fail(core::ErrorKind::usage, "run --rank {}: there are {} {}, counted from 0", *given.rank, parts,
                 job.is_streamed() ? "blocks" : "ranks");
    }
    return dry_run(job, given.rank, comm);
  }
  comm::agree(comm, core::require_device);
  const io::Settings& settings = job.run.settings;
  // Before hours of work: what the input was taken for.
  if (comm.is_root()) std::fprintf(stderr, "annulus: %s\n", describe_tensors(job).c_str());
  comm::choose_transfers(settings.distribution.gpu_aware, comm, try_device_self_send);
  comm::choose_transport(settings.distribution.transport, comm);
  if (job.is_streamed()) return run_stream(job, comm, command_line);
  const std::unique_ptr<Work> work = make_work(job, comm);
  std::optional<io::ResultFile> file;  // none: the run only times
  if (settings.output.writes_file()) {
    file.emplace(io::OutputLocation{settings.output.file, settings.output.overwrite}, job.results, comm);
  }
  std::optional<io::NewFile> report_file;  // on rank 0
  io::on_root(comm, [&] {
    if (settings.output.report) report_file.emplace(*settings.output.report, settings.output.overwrite);
  });
  std::optional<io::TraceFile> trace;
  if (settings.output.trace) trace.emplace(*settings.output.trace, settings.output.overwrite, comm);
  const Measurements measured = compute(job, *work, comm, file ? &*file : nullptr);
  if (file) {
    const comm::Scope scope("the completion of the result file");
    const core::Span finishing("finish", core::SpanKind::file);
    file->finish({io::resolved_text(settings), columns(measured), provenance(command_line, comm),
                  identity(title_of(job)), decisions(job)});
  }
  const std::vector<io::ReportEntry> ran = run_entries(job, comm);
  io::on_root(comm, [&] {
    if (report_file) io::write_report(*report_file, report(job, measured, ran));
  });
  if (comm.is_root()) print_summary(job, measured);
  if (trace) trace->finish(identity(title_of(job)));  // last: without it the result is as good
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
                      flag("--restart", given->restart,
                           "Forget what an earlier, interrupted run of this file has finished, and begin anew"),
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
