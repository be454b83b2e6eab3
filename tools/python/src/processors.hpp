// On which processors the threads of this process may run.
#pragma once

#include <string>
#include <vector>

namespace annulus::python {

struct Processors {
  std::vector<int> numbers;  ///< as the kernel counts them, ascending
  std::string source;        ///< "the places of libgomp.so.1", or "the affinity of the calling thread"
};

/// With OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY an OpenMP runtime pins the thread that loads it to the runtime's
/// first place. Then that thread's affinity has fewer processors than the process may use, so this function returns the
/// processors of the runtime's places. A second runtime (PyTorch loads one) sees a pinned thread and has only one
/// place, so the runtime with most processors counts. Without places this function returns the affinity of the calling
/// thread. It never returns processors that the process may not use, because runtimes leave these out.
Processors processors_of_this_process();

/// Processors in the places of the OpenMP runtime that is linked here; empty if it pins no threads.
std::vector<int> places_of_our_runtime();

/// From now on the calling thread runs on these processors, if the operating system allows it.
void run_on(const std::vector<int>& processors);

}  // namespace annulus::python
