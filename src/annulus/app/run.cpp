#include "annulus/app/run.hpp"

#include <cstdio>

#include "annulus/app/dry_run.hpp"
#include "annulus/app/job.hpp"
#include "annulus/app/progress.hpp"
#include "annulus/app/record.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/io/generated.hpp"
#include "annulus/io/result_file.hpp"

namespace annulus::app {
namespace {

using strategies::Tensors;

/// A buffer's bytes as the host sees them: the buffer itself, or (GPU builds) a copy.
class HostSide {
 public:
  HostSide(void* device, Index bytes) : device_(device), bytes_(bytes) {
    if (!core::device_is_host()) copy_.resize(std::size_t(bytes));
  }
  void* data() { return copy_.empty() ? device_ : copy_.data(); }
  void to_device() {
    if (!copy_.empty()) core::copy_to_device(device_, copy_.data(), bytes_);
  }
  void from_device() {
    if (!copy_.empty()) core::copy_to_host(copy_.data(), device_, bytes_);
  }

 private:
  void* device_;
  Index bytes_;
  std::vector<std::byte> copy_;
};

/// This rank's rows of q, k and v, read or generated; collective.
Tensors load(const Job& job, const comm::Communicator& comm) {
  const comm::Place place("the reading of q, k and v");
  const strategies::Problem& problem = job.problem;
  const pattern::StoredRows& rows = job.partition[std::size_t(comm.rank())];
  const Index kv_bytes = problem.shape.batch * rows.count() * problem.kv_row_bytes();
  Tensors tensors;
  comm::agree(comm, [&] {
    tensors.q = core::Buffer("q", problem.shape.batch * rows.count() * problem.query_row_bytes());
    tensors.kv = core::Buffer("kv", 2 * kv_bytes);
  });
  HostSide q(tensors.q.data(), tensors.q.bytes());
  HostSide k(tensors.kv.data(), kv_bytes), v(tensors.kv.at(kv_bytes), kv_bytes);
  const io::InputSettings& input = job.run.settings.input;
  if (job.input) {
    job.input->read({{input.q, q.data()}, {input.k, k.data()}, {input.v, v.data()}}, rows.intervals(), comm);
  } else {
    io::fill_generated(*input.generate, core::TensorId::q, rows.intervals(), q.data());
    io::fill_generated(*input.generate, core::TensorId::k, rows.intervals(), k.data());
    io::fill_generated(*input.generate, core::TensorId::v, rows.intervals(), v.data());
  }
  for (HostSide* side : {&q, &k, &v}) side->to_device();
  return tensors;
}

/// The attention itself. A rank that fails in the middle cannot tell the others, who may be waiting for its messages:
/// it ends the job.
core::RankMetrics compute(const Job& job, const comm::Communicator& comm, Tensors& tensors) {
  const comm::Place place("the attention");
  ProgressLine line(comm.is_root());
  try {
    return job.strategy->forward(job.problem, job.partition, comm, tensors,
                                 [&](double share, const std::string& where) { line.show(share, where); });
  } catch (const std::exception& error) {
    if (comm.size() == 1) throw;
    std::fprintf(stderr, "annulus: error: rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    comm::abort_job(int(core::ErrorKind::failure));
  }
}

void write(const Job& job, const comm::Communicator& comm, const Tensors& tensors, const io::ResultFile& file) {
  const comm::Place place("the writing of out and lse");
  HostSide out(tensors.out.data(), tensors.out.bytes()), lse(tensors.lse.data(), tensors.lse.bytes());
  out.from_device();
  lse.from_device();
  file.write({{"out", out.data()}, {"lse", lse.data()}}, job.partition[std::size_t(comm.rank())].intervals());
}

void meet(const comm::Communicator& comm, const char* where) {
  const comm::Place place(where);
  comm.barrier();
}

/// From the checked job to the finished file; collective.
void run_job(const Job& job, const RunOptions& options, const comm::Communicator& comm) {
  const io::Settings& settings = job.run.settings;
  comm::agree(comm, [&] {
    if (comm.is_root() && settings.output.report) io::check_report_place(*settings.output.report);
  });
  const core::Shape& shape = job.problem.shape;
  io::ResultFile file(
      {settings.output.file, settings.output.overwrite, job_id()},
      {io::tensor_spec("out", job.problem.type, shape, shape.heads), io::lse_spec("lse", job.problem.type, shape)}, comm);
  core::memory_ledger().reset_peak();
  Times times;
  const double start = core::wall_seconds();
  Tensors tensors = load(job, comm);
  times.read = core::wall_seconds() - start;
  meet(comm, "the barrier after reading");  // so that the time below is the attention's, not another rank's reading
  const double loaded = core::wall_seconds();
  const core::RankMetrics metrics = compute(job, comm, tensors);
  meet(comm, "the barrier after the attention");
  times.attention = core::wall_seconds() - loaded;
  tensors.q = {};
  tensors.kv = {};
  write(job, comm, tensors, file);
  times.write = core::wall_seconds() - loaded - times.attention;

  const comm::Place place("the completion of the result file");
  const Measurements measured = gather(job, metrics, times, comm);
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
