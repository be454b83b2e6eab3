#include "annulus/app/job/slices.hpp"

#include "annulus/kernels/kept_memory.hpp"

namespace annulus::app {

std::unique_ptr<SlicedRun::Prepared> SlicedRun::prepared(Index i) const {
  auto made = std::make_unique<Prepared>(Prepared{i, job_of_slice(job_, i), nullptr});
  made->work = std::make_unique<SliceWork>(made->job, comm_, source_, sink_);
  return made;
}

void SlicedRun::compute(Index i, Tally& tally) {
  std::unique_ptr<Prepared> now = std::move(next_);
  if (!now || now->number != i) {
    now.reset();  // a slice that an earlier launch has finished: its memory goes before another's comes
    now = prepared(i);
    if (job_.reads_ahead) now->work->begin_reading();
  }
  WorkSteps steps;
  steps.scope = fmt::format("pass {} of {}, ", i + 1, job_.slice_count());
  steps.behind_reading = [&] {
    if (!job_.reads_ahead || i + 1 >= job_.slice_count()) return;
    next_ = prepared(i + 1);
    next_->work->begin_reading();
    now->work->set_beside(SliceWork::input_bytes_of(next_->job, comm_.rank()));
  };
  kernels::release_kept_memory();  // panels of the backward pass before are larger than a forward pass's
  app::compute(now->job, *now->work, steps, comm_, tally);
}

}  // namespace annulus::app
