#include "annulus/app/job/tally.hpp"

#include <algorithm>
#include <numeric>

#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/report/progress.hpp"

namespace annulus::app {
namespace {

bool is_made(PassKind kind, const strategies::Problem& problem) {
  const std::vector<PassKind> all = passes_of(problem);
  return std::find(all.begin(), all.end(), kind) != all.end();
}

}  // namespace

void Tally::add(PassKind kind, const report::Pass& pass, const Work& work) {
  const std::vector<Index> from = work.bytes_from(kind);
  const Index predicted = work.predicted_bytes(kind);
  rows_ = work.rows().count();
  const auto [place, is_first] = passes_.try_emplace(kind, OfPass{pass, predicted, from});
  if (is_first) return;
  OfPass& sum = place->second;
  sum.pass.seconds += pass.seconds;
  sum.pass.peak_bytes = std::max(sum.pass.peak_bytes, pass.peak_bytes);
  sum.predicted_bytes = std::max(sum.predicted_bytes, predicted);
  for (std::size_t p = 0; p < from.size(); ++p) sum.bytes_from[p] += from[p];
  const std::vector<core::HopMetrics>& hops = pass.metrics.attention.hops;
  std::vector<core::HopMetrics>& sums = sum.pass.metrics.attention.hops;
  sums.resize(std::max(sums.size(), hops.size()));
  for (std::size_t h = 0; h < hops.size(); ++h) sums[h] += hops[h];
}

void Tally::add(const report::LseFindings& lse) {
  lse_ = {lse_.rows + lse.rows, lse_.keyless + lse.keyless, std::max(lse_.largest, lse.largest)};
}

void Tally::add(const FileBytes& bytes) {
  files_.read += bytes.read;
  files_.written += bytes.written;
}

report::PassMeasurements Tally::gathered(const OfPass& one, bool of_layer, const comm::Communicator& comm) const {
  report::PassMeasurements of_ranks = report::gather(one.pass, one.predicted_bytes, of_layer, comm);
  of_ranks.per_sender = report::per_sender(one.bytes_from, comm);
  return of_ranks;
}

report::Measurements Tally::gathered(const Job& job, const comm::Communicator& comm) const {
  const comm::Scope scope("the gathering of what was measured");
  report::Measurements measured;
  measured.ranks = comm.size();
  measured.read_seconds = comm.max(read_seconds);
  measured.write_seconds = comm.max(write_seconds);
  measured.lse = lse_;
  const auto of = [&](PassKind kind) -> std::optional<report::PassMeasurements> {
    const auto found = passes_.find(kind);
    if (found != passes_.end()) return gathered(found->second, job.layer.has_value(), comm);
    if (!is_made(kind, job.problem)) return std::nullopt;
    // Where an earlier launch has finished all slices, nothing was made here.
    OfPass nothing;
    nothing.pass.metrics.attention.hops.resize(1);
    nothing.bytes_from.resize(std::size_t(comm.size()));
    return gathered(nothing, job.layer.has_value(), comm);
  };
  measured.forward = *of(PassKind::forward);
  measured.statistics = of(PassKind::statistics);
  measured.backward = of(PassKind::backward);
  // What belongs to the run as a whole stands beside the forward pass's numbers.
  std::vector<store::Column>& columns = measured.forward.per_rank;
  const auto in_run = [&](const report::Quantity& quantity, double value) {
    return report::per_rank(quantity, value, comm);
  };
  columns.insert(columns.begin(), in_run({"rows", "1", "rows of the sequence"}, double(rows_)));
  columns.push_back(in_run({"peak_resident_bytes", "bytes", "peak of the process, libraries included"},
                           double(core::peak_resident_bytes())));
  columns.push_back(in_run({"read_seconds", "s", "wall time reading the input"}, read_seconds));
  columns.push_back(in_run({"read_bytes", "bytes", "bytes read from the input"}, double(files_.read)));
  columns.push_back(in_run({"write_seconds", "s", "wall time writing the result"}, write_seconds));
  columns.push_back(in_run({"write_bytes", "bytes", "bytes written to the result"}, double(files_.written)));
  return measured;
}

void compute(const Job& job, Work& work, const WorkSteps& steps, const comm::Communicator& comm, Tally& tally) {
  const auto timed = [](const char* name, double& sum, const auto& part) {
    core::Span span(name, core::SpanKind::file);
    part();
    sum += span.close();
  };
  const auto make = [&](PassKind kind) {
    const std::vector<double> flops = comm.gather_all(work.predicted_flops(kind));
    const report::ProgressLine::Work all{1e-9 * std::accumulate(flops.begin(), flops.end(), 0.0), "GFLOP"};
    const report::Pass pass = report::run_pass(comm, work.name(kind), [&] {
      report::ProgressLine line(comm.is_root(), all);
      return work.pass(kind, [&](double share, const std::string& where) { line.show(share, steps.scope + where); });
    });
    tally.add(kind, pass, work);
  };
  core::memory_ledger().reset_peak();
  timed("read", tally.read_seconds, [&] { work.read_inputs(); });
  if (steps.after_reading) timed("read", tally.read_seconds, steps.after_reading);
  make(PassKind::forward);
  if (job.problem.statistics.need_pass()) {
    core::memory_ledger().reset_peak();
    make(PassKind::statistics);
  }
  report::LseFindings lse;
  timed("write", tally.write_seconds, [&] { lse = work.write_outputs(steps.file); });
  tally.add(lse);
  if (job.run.settings.compute.gradients) {
    check_gradients_mean_something(job, lse);
    core::memory_ledger().reset_peak();
    timed("read", tally.read_seconds, [&] { work.read_gradients(); });
    make(PassKind::backward);
    timed("write", tally.write_seconds, [&] { work.write_gradients(steps.file); });
  }
  tally.add(work.file_bytes());
}

}  // namespace annulus::app
