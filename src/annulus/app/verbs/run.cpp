#include "annulus/app/verbs/run.hpp"

#include <cstdio>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/run_layer.hpp"
#include "annulus/app/job/tensors.hpp"
#include "annulus/app/report/record.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/verbs/dry_run.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/io/root.hpp"

namespace annulus::app {
namespace {

/// From the checked job to the tensors in the file. Every tensor is there only while it is needed: dout comes after the
/// forward pass, whose inputs and results the backward pass reads again.
Passes compute(const Job& job, const comm::Communicator& comm, const io::ResultFile& file) {
  const int rank = comm.rank();
  Passes passes;
  Stopwatch read, write;
  core::memory_ledger().reset_peak();
  strategies::Tensors tensors = read.time([&] { return load_inputs(job, comm); });
  passes.forward = run_pass(comm, "the attention", [&](Pass& pass, const strategies::Progress& progress) {
    pass.metrics = job.strategy->forward(job.problem, job.partition, comm, tensors, progress);
  });
  passes.forward.predicted_bytes = job.strategy->predict(job.problem, job.partition, rank).memory_bytes;
  const bool backward = job.run.settings.compute.backward;
  if (!backward) tensors.q = tensors.kv = {};
  passes.lse = write.time([&] { return write_outputs(job, comm, tensors, file); });
  if (backward) {
    check_gradients_mean_something(job, *passes.lse);
    core::memory_ledger().reset_peak();
    read.time([&] { load_gradients(job, comm, tensors); });
    passes.backward = run_pass(comm, "the backward pass", [&](Pass& pass, const strategies::Progress& progress) {
      pass.metrics = job.strategy->backward(job.problem, job.partition, comm, tensors, progress);
    });
    passes.backward->predicted_bytes = job.strategy->predict_backward(job.problem, job.partition, rank).memory_bytes;
    tensors.q = tensors.kv = tensors.out = tensors.lse = tensors.normalizers = tensors.dout = tensors.dlse = {};
    write.time([&] { write_gradients(job, comm, tensors, file); });
  }
  passes.read_seconds = read.seconds;
  passes.write_seconds = write.seconds;
  return passes;
}

/// From the checked job to the finished file; collective.
void run_job(const Job& job, const RunOptions& options, const comm::Communicator& comm) {
  const io::Settings& settings = job.run.settings;
  if (!job.layer) job.strategy->check_ranks(job.problem, job.partition, comm);
  io::ResultFile file({settings.output.file, settings.output.overwrite},
                      job.layer ? layer_tensors(job) : result_tensors(job), comm);
  std::optional<io::NewFile> report_file;  // on rank 0
  io::on_root(comm, [&] {
    if (settings.output.report) report_file.emplace(*settings.output.report, settings.output.overwrite);
  });
  const Passes passes = job.layer ? compute_layer(job, comm, file) : compute(job, comm, file);
  const comm::Place place("the completion of the result file");
  const Measurements measured = gather(passes, comm);
  file.finish({io::resolved_text(settings), columns(measured), provenance(options.command_line, comm)});
  io::on_root(comm, [&] {
    if (report_file) io::write_report(*report_file, report(job, measured));
  });
  if (comm.is_root()) print_summary(job, measured);
}

}  // namespace

int run(const RunOptions& options, const comm::Communicator& comm) {
  const int ranks = options.dry_run && options.ranks > 0 ? options.ranks : comm.size();
  const Job job = make_job(options.run_file, options.overrides, ranks, comm);
  if (job.layer) comm::agree(comm, [&] { layer_problem(job); });  // refused before anything is made
  if (options.dry_run) return dry_run(job, comm);

  // Before hours of work: what the input was taken for.
  if (comm.is_root()) std::fprintf(stderr, "annulus: %s\n", describe_tensors(job).c_str());
  const io::DistributionSettings& distribution = job.run.settings.distribution;
  comm::choose_transfers(distribution.gpu_aware, comm, try_device_self_send);
  run_job(job, options, comm);
  return 0;
}

}  // namespace annulus::app
