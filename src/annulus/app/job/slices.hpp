// A run whose units are computed by all ranks together, one after another: the whole problem, or where that is too
// large for memory, slices of it; and what it measures on its way.
#pragma once

#include <map>
#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/report/measurements.hpp"

namespace annulus::app {

/// Sums of seconds, bytes and work over the slices, and the largest peaks; of this rank.
class Tally {
 public:
  double read_seconds = 0;
  double write_seconds = 0;

  void add(PassKind kind, const report::Pass& pass, const Work& work);
  void add(const report::LseFindings& lse);
  void add(const FileBytes& bytes);

  /// The measurements of all ranks; collective, complete on rank 0.
  report::Measurements gathered(const Job& job, const comm::Communicator& comm) const;

 private:
  struct OfPass {
    report::Pass pass;
    Index predicted_bytes = 0;
    std::vector<Index> bytes_from;
  };
  report::PassMeasurements gathered(const OfPass& one, bool of_layer, const comm::Communicator& comm) const;

  std::map<PassKind, OfPass> passes_;
  report::LseFindings lse_;
  FileBytes files_;
  Index rows_ = 0;
};

/// Computes a work from its input to its result; collective. `after_reading` is called when q, k and v have been read.
/// `scope` stands before what the progress line says.
struct WorkSteps {
  store::RowWriter* file = nullptr;  ///< none: nothing is written there
  std::function<void()> after_reading{};
  std::string scope{};
};
void compute(const Job& job, Work& work, const WorkSteps& steps, const comm::Communicator& comm, Tally& tally);

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
