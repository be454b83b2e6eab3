// Decides which cases of a sweep a launch measures, and in which order.
//
// Disturbances of a machine (another clock frequency, other jobs) come and go within minutes, so runs of cases that
// will be compared must alternate: cases 0 1 2, then 1 2 0, then 2 0 1. But a launch that is killed loses the runs of
// all cases that are not complete, so a launch must not begin all cases at once. Therefore neighbouring cases are
// measured in groups, each of at most a minute by prediction (a run without a prediction counts as 1 s), and a killed
// launch loses at most one group. A case that takes longer than a minute is a group of its own. Its runs do not
// alternate with other cases, so a disturbance of several minutes may change this case alone.
#pragma once

#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#include "annulus/app/bench/trial.hpp"
#include "annulus/runfile/bench_file.hpp"

namespace annulus::app {

/// Number of a task of a job array, 0 ... count - 1; without an array there is one task.
struct ArrayTask {
  Index number = 0;
  Index count = 1;
};

/// Reads Slurm's variables through `variable`, which returns nullptr for a variable that is not set; an empty variable
/// counts as not set. Throws Error(usage) if a variable is no whole number, or if the array is not a range, so that
/// this task cannot be numbered: for example, task 5 of --array=1,5,6. Worked example: --array=10-19:3 has tasks 10,
/// 13, 16, 19; task 16 is number 2 of 4.
ArrayTask array_task(const std::function<const char*(const char*)>& variable = std::getenv);

/// A launch measures case i if the launch's task has number (i mod count), and if the launch has as many ranks and
/// threads as the case asks for.
struct BenchLaunch {
  Index ranks = 1;
  Index threads = 1;  ///< on every rank; 0: ranks differ, so no case that sets `threads` is measured
  ArrayTask task;
};
bool belongs(const runfile::BenchCase& one, const BenchLaunch& launch);

/// A group's limits for the predicted seconds of all its runs, for the number of its cases, and for the sum of the
/// bytes that its cases are predicted to need on a rank.
struct GroupLimits {
  double seconds = 60;
  std::size_t cases = 32;
  double bytes = std::numeric_limits<double>::infinity();
};

/// Functions that measure() calls on every rank; records are complete only on rank 0. If one of these functions throws,
/// the measuring ends.
struct CaseListener {
  std::function<void(const std::vector<Index>& numbers)> begun;   ///< called when a group of cases begins
  std::function<void(const store::CaseRecord& record)> finished;  ///< called when a case is measured, or has failed
};

/// Groups neighbouring cases, in order, with `runs` runs each. A case that is above a limit, or whose `alone` is true,
/// is a group of its own.
std::vector<std::vector<PlannedCase>> groups_of(const std::vector<PlannedCase>& cases, Index runs,
                                                const GroupLimits& limits);

struct Measured {
  Index cases = 0;       ///< recorded as measured
  Index failed = 0;      ///< recorded as failed
  bool stopped = false;  ///< on request, before all cases were recorded
};

/// Measures the cases; if a stop was requested, ends after the current run. Collective.
Measured measure(const JobMaker& jobs, const std::vector<PlannedCase>& cases, const store::CaseRecord& launch,
                 const CaseListener& listener, const comm::Communicator& comm);

}  // namespace annulus::app
