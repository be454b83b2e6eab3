// The one thread of this process that computes.
//
// Kokkos wants all its calls from the thread that started it, but Python calls from any thread: autograd, notebooks and
// servers have threads of their own. So a thread of ours starts Kokkos. Callers give their work to this thread and
// wait. While they wait, they do not hold the GIL, and check for Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "annulus/library/passes.hpp"
#include "processors.hpp"

namespace annulus::python {

/// How many threads a call wants. The first of these numbers that is not 0 counts: `asked` (the call's argument),
/// set_threads(), `suggested` (by the calling module: annulus.torch gives PyTorch's number), OMP_NUM_THREADS, and the
/// number of processors of this process.
struct Threads {
  int asked = 0;
  int suggested = 0;
};

/// Sets the number of threads for calls without the argument. The first call starts its threads; later calls can have
/// at most as many. Throws Error(usage) if `count` is greater than that, or below 1.
void set_threads(int count);
/// Throws Error(usage) if a call cannot have this many threads.
void check_threads(int count);

/// The number of threads for a call without the argument, what decided it, and the processors on which they run.
struct ThreadChoice {
  int count = 0;
  std::string source;
  Processors processors;
};
ThreadChoice thread_choice();

/// Does `work` in that thread and returns when it is done; throws what `work` throws. `progress` is None or a Python
/// function of (share, where), called a few times a second. The work ends if this function raises, and at Ctrl-C.
/// Throws Error(usage) if a progress function calls run(). Throws Error(failure) when Python is ending, and in a
/// process that was forked after the first use, because neither Kokkos nor OpenMP works there.
void run(const std::function<void(const Progress&)>& work, const nanobind::object& progress, Threads threads = {});

/// Ends what other threads compute. Python's atexit calls this function. From then on none of these threads takes the
/// GIL, because Python, which is ending, would end a thread that takes it, in the middle of C++ code.
void end_with_python();

}  // namespace annulus::python
