// One case while it is measured: its job, its inputs in memory, and the measurements of its repeats so far.
#pragma once

#include <map>
#include <memory>

#include "annulus/app/bench/columns.hpp"
#include "annulus/app/job/work.hpp"

namespace annulus::app {

/// A case with its prediction, before it runs.
struct PlannedCase {
  const runfile::BenchCase* one = nullptr;  ///< not owned
  double seconds = 0;  ///< predicted for one run; NaN: the model cannot predict it; 0: no prediction was asked for
  double bytes = 0;    ///< predicted peak on the rank where it is largest; 0: no prediction was asked for
  bool alone = false;  ///< an earlier launch began this case but did not measure it: perhaps the case ended that launch
  /// input.file, then the other files that contain parts of its datasets, each with its state when the case was
  /// checked; empty: the numbers are generated.
  std::vector<std::pair<std::string, store::FileState>> input_files{};
};

/// Makes the jobs of cases in the same way as `annulus run`. job() and plan() are collective and throw the same Error,
/// which names the case, on every rank.
class JobMaker {
 public:
  JobMaker(const runfile::BenchFile& file, const comm::Communicator& comm) : file_(file), comm_(comm) {}

  /// Makes the job for the number of ranks that the case asks for.
  Job job(const runfile::BenchCase& one) const;
  /// Checks a case and, with `predict`, predicts its time and memory.
  PlannedCase plan(const runfile::BenchCase& one, bool predict) const;

  const runfile::BenchFile& file() const { return file_; }

 private:
  const runfile::BenchFile& file_;
  const comm::Communicator& comm_;
  mutable std::map<std::pair<std::string, int>, Nodes> nodes_;  // by machine file and number of ranks
};

/// Constructor, run() and finish() are collective. They throw the same AgreedError on every rank if the case fails.
class Trial {
 public:
  /// Reads the inputs. If one of `others` has the same rows of the same tensors in memory, uses its inputs instead.
  Trial(const JobMaker& jobs, const PlannedCase& planned, const std::vector<std::unique_ptr<Trial>>& others,
        const comm::Communicator& comm);

  /// Runs the passes once, as `annulus run` does. Keeps the measurements if this run `counts` (is no warm-up), and the
  /// results if it is the `last` run.
  void run(bool counts, bool last, const strategies::Progress& progress);
  /// Compares rows of the last run with the definition and looks for NaN in all rows; the record is complete on rank 0.
  store::CaseRecord finish(double peak_gflop_per_cpu_second, const store::CaseRecord& launch);

  const runfile::BenchCase& of() const { return *planned_.one; }
  core::Precision precision() const { return job_.problem.precision; }

 private:
  bool shares_with(const std::vector<std::unique_ptr<Trial>>& others);
  report::Pass pass(PassKind kind, const strategies::Progress& progress);

  const PlannedCase planned_;
  const Index verify_rows_;
  const comm::Communicator& comm_;
  const Job job_;
  const std::unique_ptr<store::FileRows> source_;
  const std::unique_ptr<Work> work_;
  CaseMeasurements measured_;
  bool has_run_ = false;
};

}  // namespace annulus::app
