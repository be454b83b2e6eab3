// Decides which cases of a sweep a launch measures, and in which order.
//
// What disturbs a machine (its clock, its neighbours) comes and goes within minutes, so runs of cases that will be
// compared must alternate: case 0, 1, 2, then 0, 1, 2 again. A launch that is killed loses the runs of all cases that
// are not complete, so not all cases of a sweep can alternate. Cases are therefore measured in groups of neighbours:
// as many as take about a minute together, all their repeats included. A killed launch loses about a minute, and
// cases that take longer, which average over disturbances by themselves, are groups of their own.
#pragma once

#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#include "annulus/app/bench/trial.hpp"
#include "annulus/runfile/bench_file.hpp"

namespace annulus::app {

/// A task of a job array, 0 ... count - 1; without an array there is one task.
struct ArrayTask {
  Index number = 0;
  Index count = 1;
};

/// Reads Slurm's variables through `variable` (nullptr: not set). Throws Error(usage) for an array that is not a range,
/// such as --array=1,5,6, because its tasks cannot be counted. Worked example: --array=10-19:3 has tasks 10, 13, 16,
/// 19; task 16 is number 2 of 4.
ArrayTask array_task(const std::function<const char*(const char*)>& variable = std::getenv);

/// Task (i mod count) measures case i, in a launch with the ranks and threads that the case asks for.
struct BenchLaunch {
  Index ranks = 1;
  Index threads = 1;
  ArrayTask task;
};
bool belongs(const runfile::BenchCase& one, const BenchLaunch& launch);

/// Limits of a group: predicted seconds of all its runs, cases, and bytes on a rank with all inputs in memory.
struct GroupLimits {
  double seconds = 60;
  std::size_t cases = 32;
  double bytes = std::numeric_limits<double>::infinity();
};

/// Functions that are called on every rank while cases are measured; records are complete only on rank 0. An exception
/// from one of them ends the measuring.
struct CaseListener {
  std::function<void(const std::vector<Index>& numbers)> begun;   ///< called when a group of cases begins
  std::function<void(const store::CaseRecord& record)> finished;  ///< called when a case is measured, or has failed
};

/// Groups neighbouring cases, in order, with `runs` runs each. A case beyond a limit, or `alone`, gets its own group.
std::vector<std::vector<PlannedCase>> groups_of(const std::vector<PlannedCase>& cases, Index runs,
                                                const GroupLimits& limits);

/// The result of measure().
struct Measured {
  Index cases = 0;   ///< recorded as measured
  Index failed = 0;  ///< recorded as failed
  bool stopped = false;
};

/// Measures the cases; between two runs it stops if that was requested. Collective.
Measured measure(const JobMaker& jobs, const std::vector<PlannedCase>& cases, const store::CaseRecord& launch,
                 const CaseListener& listener, const comm::Communicator& comm);

}  // namespace annulus::app
