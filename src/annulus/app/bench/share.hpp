// Which cases of a sweep a launch measures.
#pragma once

#include <functional>

#include "annulus/runfile/bench_file.hpp"

namespace annulus::app {

using core::Index;

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

}  // namespace annulus::app
