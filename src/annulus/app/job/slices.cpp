#include "annulus/app/job/slices.hpp"

#include <algorithm>
#include <numeric>
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/kept_memory.hpp"
#include "annulus/report/progress.hpp"

namespace annulus::app {

void Tally::add(PassKind kind, const report::Pass& pass, const Work& work) {
  const std::vector<Index> from = work.bytes_from(kind);
  const Index predicted = work.predicted_bytes(kind);
  rows_ = work.rows().count();
  const auto [entry, is_first] = passes_.try_emplace(kind, PassSums{pass, predicted, from});
  if (is_first) return;
  PassSums& sum = entry->second;
  sum.pass.seconds += pass.seconds;
  sum.pass.peak_bytes = std::max(sum.pass.peak_bytes, pass.peak_bytes);
  sum.predicted_bytes = std::max(sum.predicted_bytes, predicted);
  for (std::size_t p = 0; p < from.size(); ++p) sum.bytes_from[p] += from[p];
  const std::vector<core::HopMetrics>& hops = pass.metrics.attention.hops;
  std::vector<core::HopMetrics>& sums = sum.pass.metrics.attention.hops;
  sums.resize(std::max(sums.size(), hops.size()));
  for (std::size_t h = 0; h < hops.size(); ++h) sums[h] += hops[h];
}

void Tally::add(const FileBytes& bytes) {
  files_.read += bytes.read;
  files_.written += bytes.written;
}

report::Measurements Tally::gathered(const Job& job, const comm::Communicator& comm) const {
  const comm::Scope scope("gathering the measurements");
  report::Measurements measured;
  measured.ranks = comm.size();
  measured.read_seconds = comm.max(read_seconds);
  measured.write_seconds = comm.max(write_seconds);
  measured.lse = lse_;
  const auto of = [&](PassKind kind) -> std::optional<report::PassMeasurements> {
    const std::vector<PassKind> all = passes_of(job.problem);
    if (std::find(all.begin(), all.end(), kind) == all.end()) return std::nullopt;
    PassSums one;  // stays 0 if this launch has computed no slice, because others have
    one.pass.metrics.attention.hops.resize(1);
    one.bytes_from.resize(std::size_t(comm.size()));
    if (const auto found = passes_.find(kind); found != passes_.end()) one = found->second;
    report::PassMeasurements of_ranks = report::gather(one.pass, one.predicted_bytes, job.layer.has_value(), comm);
    of_ranks.per_sender = report::per_sender(one.bytes_from, comm);
    return of_ranks;
  };
  measured.forward = *of(PassKind::forward);
  measured.statistics = of(PassKind::statistics);
  measured.backward = of(PassKind::backward);
  // Columns that belong to the whole run are stored with those of the forward pass.
  std::vector<store::Column>& columns = measured.forward.per_rank;
  columns.insert(columns.begin(), report::per_rank({"rows", "1", "rows of the sequence"}, double(rows_), comm));
  const auto add = [&](const report::Quantity& quantity, double value) {
    columns.push_back(report::per_rank(quantity, value, comm));
  };
  add({"peak_resident_bytes", "bytes", "peak of the process, libraries included"}, double(core::peak_resident_bytes()));
  add({"read_seconds", "s", "wall time reading the input"}, read_seconds);
  add({"read_bytes", "bytes", "bytes read from the input"}, double(files_.read));
  add({"write_seconds", "s", "wall time writing the result"}, write_seconds);
  add({"write_bytes", "bytes", "bytes written to the result"}, double(files_.written));
  return measured;
}

Job job_of_slice(const Job& whole, Index i) {
  Job job = whole;
  if (whole.layer) return job;  // a layer is not cut
  job.slice = strategies::slice_of(whole.problem.shape, whole.slices, i);
  job.problem = strategies::narrowed(whole.problem, *job.slice);
  job.slices = strategies::whole_of(job.problem.shape);
  return job;
}

std::unique_ptr<SlicedRun::Prepared> SlicedRun::prepared(Index i) const {
  auto made = std::make_unique<Prepared>(Prepared{i, job_of_slice(job_, i), nullptr});
  made->work = make_work(made->job, source_, comm_);
  return made;
}

void SlicedRun::read_next(Prepared& now) {
  if (!job_.reads_ahead || now.number + 1 >= job_.slice_count()) return;
  next_ = prepared(now.number + 1);
  next_->work->read_ahead();
  now.work->set_read_ahead_bytes(input_bytes_of(next_->job, comm_.rank()));
}

void SlicedRun::compute(Prepared& now, Tally& tally) {
  Work& work = *now.work;
  const std::string scope =
      job_.slice_count() > 1 ? fmt::format("pass {} of {}, ", now.number + 1, job_.slice_count()) : "";
  const auto timed = [](const char* name, double& sum, const auto& part) {
    core::Span span(name, core::SpanKind::file);
    part();
    sum += span.close();
  };
  const auto make = [&](PassKind kind) {
    const std::vector<double> flops = comm_.gather_all(work.predicted_flops(kind));
    const report::ProgressLine::Work all{1e-9 * std::accumulate(flops.begin(), flops.end(), 0.0), "GFLOP"};
    const report::Pass pass = report::run_pass(comm_, work.name(kind), [&] {
      report::ProgressLine line(comm_.is_root(), all);
      return work.pass(kind, [&](double share, const std::string& where) { line.show(share, scope + where); });
    });
    tally.add(kind, pass, work);
  };
  core::memory_ledger().reset_peak();
  timed("read", tally.read_seconds, [&] { work.read_inputs(); });
  timed("read", tally.read_seconds, [&] { read_next(now); });
  make(PassKind::forward);
  if (now.job.problem.statistics.need_pass()) {
    core::memory_ledger().reset_peak();
    make(PassKind::statistics);
  }
  report::LseFindings lse;
  timed("write", tally.write_seconds, [&] { lse = work.write_outputs(output_); });
  tally.add(lse);
  if (now.job.run.settings.compute.gradients) {
    check_gradients_mean_something(now.job, lse);
    core::memory_ledger().reset_peak();
    timed("read", tally.read_seconds, [&] { work.read_gradients(); });
    make(PassKind::backward);
    timed("write", tally.write_seconds, [&] { work.write_gradients(output_); });
  }
  tally.add(work.file_bytes());
}

std::string SlicedRun::compute(Index i, Tally& tally) {
  std::unique_ptr<Prepared> now = std::move(next_);
  const bool has_several = job_.slice_count() > 1;
  if (!now || now->number != i) {
    now.reset();  // if another slice was read ahead, frees its memory first
    now = prepared(i);
    if (has_several && job_.reads_ahead) now->work->read_ahead();
  }
  if (has_several)
    kernels::release_kept_memory();  // because the last backward pass left larger buffers than a forward pass needs
  compute(*now, tally);
  return now->work->sink_note();
}

WhyUnfinished compute_slices(const Job& job, const comm::Communicator& comm, Tally& tally,
                             const std::function<store::Record()>& finish) {
  if (!job.run.settings.output.writes_file()) {
    const std::unique_ptr<store::FileRows> source = input_rows(job, comm);
    SlicedRun slices(job, comm, *source, nullptr);
    for (Index i = 0; i < job.slice_count(); ++i) slices.compute(i, tally);
    return {};
  }
  if (!job.layer) {  // fails before the output is made, if these ranks lack what the strategy needs
    const Job first = job_of_slice(job, 0);
    first.strategy->check_ranks(first.problem, first.partition, comm);
  }
  Cuts cuts{std::string(job.strategy->name()),
            {{"batch_entries", job.slices.batch_entries}, {"kv_heads", job.slices.kv_heads}},
            {job.slice_count()}};
  if (job.problem.partition) cuts.numbers["partition"] = Index(*job.problem.partition);
  LongRun run(job, cuts, {}, comm);
  {
    SlicedRun slices(job, comm, run.source(), run.output());
    while (const std::optional<Unit> unit = run.claim_together()) {
      const std::string sink_note = slices.compute(unit->index, tally);
      const comm::Scope scope("writing a unit's results to disk");
      core::Span flushing("flush", core::SpanKind::file);
      run.finish_together(*unit, sink_note);
      tally.write_seconds += flushing.close();
    }
  }
  const comm::Scope scope("the completion of the result file");
  const core::Span finishing("finish", core::SpanKind::file);
  return run.complete(finish) ? WhyUnfinished{} : run.why_unfinished();
}

}  // namespace annulus::app
