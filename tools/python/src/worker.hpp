// The one thread of this process that computes.
//
// Kokkos wants all its calls from the thread that started it, and Python calls from any: autograd has threads of its
// own, notebooks and servers too. So a thread of ours starts Kokkos, and callers hand it their work and wait, without
// the GIL and with an ear for Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "annulus/library/passes.hpp"
#include "processors.hpp"

namespace annulus::python {

/// Threads that a call wants: `asked` by its argument, else those of set_threads(), else `suggested` by whoever calls
/// (annulus.torch: PyTorch's number), else OMP_NUM_THREADS, else the processors of this process. 0: says nothing.
struct Threads {
  int asked = 0;
  int suggested = 0;
};

/// For calls that ask for no number themselves. The first call starts so many threads; afterwards as many or fewer can
/// be had. Throws Error(usage) when there are fewer, or `count` < 1.
void set_threads(int count);
/// Throws Error(usage) where a call cannot have so many.
void check_threads(int count);

/// Threads of a call that says nothing, who decided that, and the processors on which they run.
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

/// Ends what other threads compute, since Python ends: from then on none of them takes the GIL, for which Python would
/// end it in the middle of C++. Python's atexit calls it.
void end_with_python();

}  // namespace annulus::python
