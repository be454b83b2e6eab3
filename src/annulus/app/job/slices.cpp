#include "annulus/app/job/slices.hpp"

#include "annulus/app/job/run_identity.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/kernels/kept_memory.hpp"

namespace annulus::app {

Job job_of_slice(const Job& whole, Index i) {
  Job job = whole;
  if (whole.layer) return job;  // a layer is one unit
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

std::string SlicedRun::compute(Index i, Tally& tally) {
  std::unique_ptr<Prepared> now = std::move(next_);
  const bool has_several = job_.slice_count() > 1;
  if (!now || now->number != i) {
    now.reset();  // an earlier launch has finished that slice: its memory goes before another's comes
    now = prepared(i);
    if (has_several && job_.reads_ahead) now->work->read_ahead();
  }
  WorkSteps steps;
  steps.file = output_;
  if (has_several) steps.scope = fmt::format("pass {} of {}, ", i + 1, job_.slice_count());
  steps.after_reading = [&] {
    if (!job_.reads_ahead || i + 1 >= job_.slice_count()) return;
    next_ = prepared(i + 1);
    next_->work->read_ahead();
    now->work->set_read_ahead_bytes(input_bytes_of(next_->job, comm_.rank()));
  };
  if (has_several)
    kernels::release_kept_memory();  // panels of the backward pass before are larger than a forward pass's
  app::compute(now->job, *now->work, steps, comm_, tally);
  return now->work->sink_note();
}

Cuts cuts_of(const Job& job) {
  Cuts cuts{std::string(job.strategy->name()),
            {{"batch_entries", job.slices.batch_entries}, {"kv_heads", job.slices.kv_heads}},
            {job.slice_count()}};
  if (job.problem.partition) cuts.numbers["partition"] = Index(*job.problem.partition);
  return cuts;
}

std::optional<RecordedSlices> slices_in(const Cuts& cuts) {
  const auto number = [&](const char* name) {
    const auto found = cuts.numbers.find(name);
    return found == cuts.numbers.end() ? std::nullopt : std::optional(found->second);
  };
  const auto entries = number("batch_entries"), heads = number("kv_heads"), partition = number("partition");
  if (!entries || !heads) return std::nullopt;
  RecordedSlices recorded{cuts.strategy, std::nullopt, {*entries, *heads}};
  if (partition) recorded.partition = pattern::PartitionKind(*partition);
  return recorded;
}

WhyUnfinished compute_slices(const Job& job, const comm::Communicator& comm, Tally& tally,
                             const std::function<store::Record()>& finish) {
  if (!job.run.settings.output.writes_file()) {
    const std::unique_ptr<store::FileRows> source = input_rows(job, comm);
    SlicedRun slices(job, comm, *source, nullptr);
    for (Index i = 0; i < job.slice_count(); ++i) slices.compute(i, tally);
    return {};
  }
  if (!job.layer) {  // before anything is made: what these ranks lack for the strategy
    const Job first = job_of_slice(job, 0);
    first.strategy->check_ranks(first.problem, first.partition, comm);
  }
  LongRun run(job, cuts_of(job), {}, comm);
  {
    SlicedRun slices(job, comm, run.source(), run.output());
    while (const std::optional<Unit> unit = run.claim_together()) {
      const std::string sink_note = slices.compute(unit->index, tally);
      const comm::Scope scope("the flushing of a unit");
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
