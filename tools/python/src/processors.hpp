// On which processors the threads of this process may run.
#pragma once

#include <string>
#include <vector>

namespace annulus::python {

struct Processors {
  std::vector<int> numbers;  ///< as the kernel counts them, ascending
  std::string source;        ///< "the places of libgomp.so.1", or "the affinity of the calling thread"
};

/// The places of an OpenMP runtime that is loaded, where it has any: with OMP_PROC_BIND, OMP_PLACES or
/// GOMP_CPU_AFFINITY a runtime pins the thread that loads it to its first place, so that this thread's affinity is no
/// longer what the process may use. A second runtime (PyTorch brings one) sees a pinned thread and has that one place,
/// so the runtime with the most processors is asked. Where there are no places: the affinity of the calling thread.
/// Never more than the process was given: runtimes take processors outside its affinity out of their places.
Processors processors_of_this_process();

/// Processors in the places of the OpenMP runtime that is linked here; none: it pins no threads.
std::vector<int> places_of_our_runtime();

/// From now on the calling thread runs on these, if the kernel lets it.
void run_on(const std::vector<int>& processors);

}  // namespace annulus::python
