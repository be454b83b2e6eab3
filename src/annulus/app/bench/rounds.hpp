// Which cases of a sweep a launch measures, and in which order.
//
// What disturbs a machine (its clock, its neighbours) comes and goes within minutes, so runs of cases that will be
// compared must alternate: case 0, 1, 2, then 0, 1, 2 again. A launch that is killed loses the runs of all cases that
// are not complete, so not all cases of a sweep can alternate. Cases are therefore measured in groups of neighbours:
// as many as take about a minute together, all their repeats included. A killed launch loses about a minute, and
// cases that take longer, which average over disturbances by themselves, are groups of their own.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "annulus/app/bench/trial.hpp"
#include "annulus/runfile/bench_file.hpp"

namespace annulus::app {

/// A task of a job array, 0 ... count - 1; without an array the only one.
struct ArrayTask {
  Index number = 0;
  Index count = 1;
};

/// From Slurm's variables, looked up by name (nullptr: not set). Throws Error(usage) for arrays that are no range,
/// whose tasks cannot be counted: --array=1,5,6.
/// Worked example: --array=10-19:3 has tasks 10, 13, 16, 19; 16 is number 2 of 4.
ArrayTask array_task(const std::function<const char*(const char*)>& variable);
ArrayTask array_task();

/// Case i belongs to task i mod count, and to launches of the ranks and threads that it asks for.
struct BenchLaunch {
  Index ranks = 1;
  Index threads = 1;
  ArrayTask task;
};
bool belongs(const runfile::BenchCase& one, const BenchLaunch& launch);

/// What bounds a group: predicted seconds of all runs, cases, and bytes of a rank with all inputs in memory.
struct GroupLimits {
  double seconds = 60;
  std::size_t cases = 32;
  double bytes = std::numeric_limits<double>::infinity();
};

/// Hears of cases while they are measured, on every rank; records are complete on rank 0. An exception that it throws
/// ends the measuring.
struct CaseListener {
  std::function<void(const std::vector<Index>& numbers)> begun;   ///< called when a group of cases begins
  std::function<void(const store::CaseRecord& record)> finished;  ///< called when a case is measured, or has failed
};

/// Neighbours in groups, in their order; a case beyond a limit, or `alone`, is a group of its own. `runs` of each case.
std::vector<std::vector<PlannedCase>> groups_of(const std::vector<PlannedCase>& cases, Index runs,
                                                const GroupLimits& limits);

/// What measuring came to.
struct Measured {
  Index cases = 0;   ///< recorded as measured
  Index failed = 0;  ///< recorded as failed
  bool stopped = false;
};

/// Measures the cases; stops when asked to, between two runs. Collective.
Measured measure(const JobMaker& jobs, const std::vector<PlannedCase>& cases, const store::CaseRecord& launch,
                 const CaseListener& listener, const comm::Communicator& comm);

}  // namespace annulus::app
