#include "annulus/app/run.hpp"

#include <cstdio>

#include "annulus/app/dry_run.hpp"
#include "annulus/app/job.hpp"
#include "annulus/app/progress.hpp"
#include "annulus/app/record.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/tensors.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::app {
namespace {

void meet(const comm::Communicator& comm, const std::string& where) {
  const comm::Place place(where);
  comm.barrier();
}

/// Sums the wall time of several pieces of work.
struct Stopwatch {
  double seconds = 0;

  template <class Work>
  auto time(Work&& work) {
    struct Stop {
      double& sum;
      double start = core::wall_seconds();
      ~Stop() { sum += core::wall_seconds() - start; }
    } stop{seconds};
    return work();
  }
};

/// One pass of the strategy, from one barrier to the next. A rank that fails in the middle cannot tell the others, who
/// may be waiting for its messages: it ends the job.
Pass attend(const comm::Communicator& comm, const std::string& name,
            const std::function<core::RankMetrics(const strategies::Progress&)>& work) {
  meet(comm, "the barrier before " + name);  // so that the time below is the pass's, not another rank's reading
  const double start = core::wall_seconds();
  Pass pass;
  try {
    const comm::Place place(name);
    ProgressLine line(comm.is_root());
    pass.metrics = work([&](double share, const std::string& where) { line.show(share, where); });
  } catch (const std::exception& error) {
    if (comm.size() == 1) throw;
    std::fprintf(stderr, "annulus: error: rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    comm::abort_job(int(core::ErrorKind::failure));
  }
  meet(comm, "the barrier after " + name);
  pass.seconds = core::wall_seconds() - start;
  pass.peak_bytes = core::memory_ledger().peak();
  return pass;
}

/// From the checked job to the tensors in the file. Every tensor is there only while it is needed: dout comes after the
/// forward pass, whose inputs and results the backward pass reads again.
Passes compute(const Job& job, const comm::Communicator& comm, const io::ResultFile& file) {
  const int rank = comm.rank();
  Passes passes;
  Stopwatch read, write;
  core::memory_ledger().reset_peak();
  strategies::Tensors tensors = read.time([&] { return load_inputs(job, comm); });
  passes.forward = attend(comm, "the attention", [&](const strategies::Progress& progress) {
    return job.strategy->forward(job.problem, job.partition, comm, tensors, progress);
  });
  passes.forward.predicted_bytes = job.strategy->predict(job.problem, job.partition, rank).memory_bytes;
  const bool backward = job.run.settings.compute.backward;
  if (!backward) tensors.q = tensors.kv = {};
  write.time([&] { write_outputs(job, comm, tensors, file); });
  if (backward) {
    core::memory_ledger().reset_peak();
    read.time([&] { load_gradients(job, comm, tensors); });
    passes.backward = attend(comm, "the backward pass", [&](const strategies::Progress& progress) {
      return job.strategy->backward(job.problem, job.partition, comm, tensors, progress);
    });
    passes.backward->predicted_bytes = job.strategy->predict_backward(job.problem, job.partition, rank).memory_bytes;
    tensors.q = tensors.kv = tensors.out = tensors.lse = tensors.dout = tensors.dlse = {};
    write.time([&] { write_gradients(job, comm, tensors, file); });
  }
  passes.read_seconds = read.seconds;
  passes.write_seconds = write.seconds;
  return passes;
}

/// From the checked job to the finished file; collective.
void run_job(const Job& job, const RunOptions& options, const comm::Communicator& comm) {
  const io::Settings& settings = job.run.settings;
  comm::agree(comm, [&] {
    if (comm.is_root() && settings.output.report) io::check_report_place(*settings.output.report);
  });
  io::ResultFile file({settings.output.file, settings.output.overwrite, job_id()}, result_tensors(job), comm);
  const Passes passes = compute(job, comm, file);
  const comm::Place place("the completion of the result file");
  const Measurements measured = gather(passes, comm);
  file.finish({io::resolved_text(settings), columns(measured), provenance(options.command_line, comm)});
  comm::agree(comm, [&] {
    if (comm.is_root() && settings.output.report) io::write_report(*settings.output.report, report(job, measured));
  });
  if (comm.is_root()) print_summary(job, measured);
}

}  // namespace

int run(const RunOptions& options, const comm::Communicator& comm) {
  const int ranks = options.dry_run && options.ranks > 0 ? options.ranks : comm.size();
  const Job job = make_job(options.run_file, options.overrides, ranks, comm);
  if (options.dry_run) return dry_run(job, comm);

  const io::DistributionSettings& distribution = job.run.settings.distribution;
  comm::choose_transfers(distribution.gpu_aware, comm, try_device_self_send);
  comm::Watchdog watchdog(comm, distribution.stall_timeout);
  try {
    run_job(job, options, comm);
  } catch (const comm::AgreedError&) {
    watchdog.end();  // every rank is here
    throw;
  }
  return 0;
}

}  // namespace annulus::app
