// On which processors the threads of this process may run.
#pragma once

#include <string>
#include <vector>

namespace annulus::python {

struct Processors {
  std::vector<int> numbers;  ///< as the kernel counts them, ascending
  std::string source;        ///< "the places of libgomp.so.1", or "the affinity of the calling thread"
};

/// With OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY an OpenMP runtime pins the thread that loads it to its first
/// place. That thread's affinity is then smaller than what the process may use, so this returns the runtime's places. A
/// second runtime (PyTorch loads one) sees a pinned thread and has only one place: the runtime with most processors
/// counts. Without places this returns the affinity of the calling thread. Runtimes leave out processors that the
/// process may not use, so there are never too many.
Processors processors_of_this_process();

/// Processors in the places of the OpenMP runtime that is linked here; empty if it pins no threads.
std::vector<int> places_of_our_runtime();

/// From now on the calling thread runs on these processors, if the operating system allows it.
void run_on(const std::vector<int>& processors);

}  // namespace annulus::python
