// The one thread of this process that computes.
//
// Kokkos wants all its calls from the thread that started it, and Python calls from any: autograd has threads of its
// own, notebooks and servers too. So a thread of ours starts Kokkos. Callers give it their work and wait; they hold no
// GIL and check for Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "annulus/library/passes.hpp"
#include "processors.hpp"

namespace annulus::python {

/// Threads that a call wants: the first that is not 0 of `asked` (its argument), set_threads(), `suggested` (by the
/// calling module: annulus.torch gives PyTorch's number), OMP_NUM_THREADS, and the processors of this process.
struct Threads {
  int asked = 0;
  int suggested = 0;
};

/// Sets the threads of calls without the argument. The first call starts its number of threads; later calls can have at
/// most that many. Throws Error(usage) for more than that, and for `count` < 1.
void set_threads(int count);
/// Throws Error(usage) if a call cannot have this many.
void check_threads(int count);

/// Threads of a call without the argument, what decided their number, and the processors on which they run.
struct ThreadChoice {
  int count = 0;
  std::string source;
  Processors processors;
};
ThreadChoice thread_choice();

/// Does `work` in that thread and returns when it is done; throws what it throws. `progress` is None or a Python
/// function of (share, where), called a few times a second; what it raises ends the work, and so does Ctrl-C. Throws
/// Error(usage) where a progress function calls it, Error(failure) when Python is ending, and in a process that was
/// forked after the first use, where neither Kokkos nor OpenMP works.
void run(const std::function<void(const Progress&)>& work, const nanobind::object& progress, Threads threads = {});

/// Ends what other threads compute. Python's atexit calls it. From then on none of these threads takes the GIL: Python,
/// which is ending, would end a thread that takes it in the middle of C++.
void end_with_python();

}  // namespace annulus::python
