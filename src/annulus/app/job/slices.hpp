// Computes and measures a run in which all ranks together compute one unit after another. A unit is a slice of the
// problem, or the whole problem if it fits into memory.
#pragma once

#include <map>

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/report/measurements.hpp"

namespace annulus::app {

/// This rank's sums of seconds, bytes and work over all slices, and its largest memory peaks.
class Tally {
 public:
  double read_seconds = 0;
  double write_seconds = 0;

  void add(PassKind kind, const report::Pass& pass, const Work& work);
  void add(const report::LseFindings& lse) { lse_.add(lse); }
  void add(const FileBytes& bytes);

  /// Gathers the measurements of all ranks. Collective. The result is complete on rank 0.
  report::Measurements gathered(const Job& job, const comm::Communicator& comm) const;

 private:
  struct PassSums {
    report::Pass pass;
    Index predicted_bytes = 0;
    std::vector<Index> bytes_from;
  };

  std::map<PassKind, PassSums> passes_;
  report::LseFindings lse_;
  FileBytes files_;
  Index rows_ = 0;
};

/// Makes the job that computes slice i of a job.
Job job_of_slice(const Job& whole, Index i);

/// Computes slices of a job, each on all ranks together. If Job::reads_ahead, reads the next slice while it computes
/// one.
class SlicedRun {
 public:
  /// If `output` is nullptr, nothing is written. All arguments must outlive this object.
  SlicedRun(const Job& job, const comm::Communicator& comm, core::RowSource& source, store::RowWriter* output)
      : job_(job), comm_(comm), source_(source), output_(output) {}

  /// Reads, computes and writes slice i; may begin to read slice i + 1. Returns Work::sink_note() of slice i.
  /// Collective.
  std::string compute(Index i, Tally& tally);

 private:
  struct Prepared {
    Index number;
    Job job;
    std::unique_ptr<Work> work;
  };
  std::unique_ptr<Prepared> prepared(Index i) const;
  void read_next(Prepared& now);
  void compute(Prepared& now, Tally& tally);

  const Job& job_;
  const comm::Communicator& comm_;
  core::RowSource& source_;
  store::RowWriter* const output_;
  std::unique_ptr<Prepared> next_;  // the slice that is being read
};

/// Computes the job's slices. Collective. Without an output file it writes nothing. Otherwise it calls `finish` for the
/// file's record when all slices are finished, including those of earlier launches. Returns why slices are unfinished:
/// a stop was requested, or processes of other launches have claimed them. Empty if all slices are finished.
WhyUnfinished compute_slices(const Job& job, const comm::Communicator& comm, Tally& tally,
                             const std::function<store::Record()>& finish);

// With strategy stream (stream_work.cpp), each rank on its own reads and computes blocks, and writes them to the
// result.

/// Computes a checked job of strategy stream. When all units of a file are finished, calls `finish` with the
/// measurements; `finish` returns the record for the file. Returns the measurements; empty if units are unfinished, and
/// `rest` then says why. Collective.
std::optional<report::Measurements> compute_blocks(
    const Job& job, const std::function<store::Record(const report::Measurements&)>& finish,
    const comm::Communicator& comm, WhyUnfinished& rest);

}  // namespace annulus::app
