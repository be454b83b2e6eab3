// A run whose units are computed by all ranks together, one after another: the whole problem, or where that is too
// large for memory, slices of it.
#pragma once

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/tally.hpp"

namespace annulus::app {

/// The job of slice i of a job.
Job job_of_slice(const Job& whole, Index i);

/// Computes slices of a job, all ranks the same one; where there is room, the next one is read meanwhile.
class SlicedRun {
 public:
  /// `output`: nullptr where nothing is written. All of them outlive it.
  SlicedRun(const Job& job, const comm::Communicator& comm, core::RowSource& source, store::RowWriter* output)
      : job_(job), comm_(comm), source_(source), output_(output) {}

  /// Slice i from input to result, collective. Slice i + 1 is taken to come next. Returns Work::sink_note().
  std::string compute(Index i, Tally& tally);

 private:
  struct Prepared {
    Index number;
    Job job;
    std::unique_ptr<Work> work;
  };
  std::unique_ptr<Prepared> prepared(Index i) const;

  const Job& job_;
  const comm::Communicator& comm_;
  core::RowSource& source_;
  store::RowWriter* const output_;
  std::unique_ptr<Prepared> next_;  // that is being read
};

/// The job's slices as units of a long run, all in one phase; and back, nothing where the units are not slices.
Cuts cuts_of(const Job& job);
std::optional<RecordedSlices> slices_in(const Cuts& cuts);

/// Computes the job's slices; collective. Without a file nothing is written, and `finish` never called; else it is
/// called when all are finished, those of earlier launches included, and makes the record that goes into the file.
/// Returns why slices are left: a stop was asked for, or another launch works on them; empty: none are.
WhyUnfinished compute_slices(const Job& job, const comm::Communicator& comm, Tally& tally,
                             const std::function<store::Record()>& finish);

}  // namespace annulus::app
