// One case being measured: its job with inputs in memory, and what the repeats gave so far.
#pragma once

#include <map>
#include <memory>

#include "annulus/app/bench/columns.hpp"
#include "annulus/app/job/work.hpp"

namespace annulus::app {

/// A case as it was planned, before anything runs.
struct PlannedCase {
  const runfile::BenchCase* one = nullptr;
  double seconds = 0;  ///< predicted of a run; a guess where there is no prediction
  double bytes = 0;    ///< predicted peak of the fullest rank
  bool alone = false;  ///< an earlier launch began it and did not finish: it may have been the reason
};

/// Makes jobs of cases, as `run` makes one. All functions are collective and throw the same Error on every rank, which
/// names the case.
class JobMaker {
 public:
  JobMaker(const runfile::BenchFile& file, const comm::Communicator& comm) : file_(file), comm_(comm) {}

  /// For the ranks that the case is for.
  Job job(const runfile::BenchCase& one) const;
  /// Checks a case, and tells what to expect of it where that is asked.
  PlannedCase plan(const runfile::BenchCase& one, bool predict) const;

  const runfile::BenchFile& file() const { return file_; }

 private:
  const Nodes& nodes(const std::optional<std::string>& machine_file, int ranks) const;

  const runfile::BenchFile& file_;
  const comm::Communicator& comm_;
  mutable std::map<std::pair<std::string, int>, Nodes> nodes_;  // by machine file and ranks
};

/// All functions are collective, and throw the same AgreedError on every rank where the case cannot be measured.
class Trial {
 public:
  /// Reads the inputs, or shares them with one of `others` that has the same rows.
  Trial(const JobMaker& jobs, const PlannedCase& planned, const std::vector<std::unique_ptr<Trial>>& others,
        const comm::Communicator& comm);

  /// Runs the passes once, as `run` does, and keeps what they took if it `counts`, and what they made if it is the
  /// last.
  void run(bool counts, bool last, const strategies::Progress& progress);
  /// Holds rows of the last run against the definition, and all of it against NaN; the record is complete on rank 0.
  store::CaseRecord finish(double peak_gflop_per_cpu_second, const store::CaseRecord& launch);

  const runfile::BenchCase& of() const { return *planned_.one; }
  double predicted_seconds() const { return planned_.seconds; }
  core::Precision precision() const { return job_.problem.precision; }

 private:
  bool shares_with(const std::vector<std::unique_ptr<Trial>>& others);
  report::Pass pass(PassKind kind, const strategies::Progress& progress);
  verify::Findings look() const;

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
