// The one thread of this process that computes.
//
// Kokkos wants all its calls from the thread that started it, and Python calls from any: autograd has threads of its
// own, notebooks and servers too. So a thread of ours starts Kokkos, and callers hand it their work and wait, without
// the GIL and with an ear for Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

#include "annulus/library/passes.hpp"

namespace annulus::python {

/// Threads that a worker starts with: set before the first use, else OMP_NUM_THREADS, else the processors that this
/// process may use. Afterwards as many of them as wanted. Throws Error(usage) when there are fewer, or `count` < 1.
void set_threads(int count);
/// Those in use, or that would be.
int get_threads();

/// Does `work` in that thread and returns when it is done; throws what it throws. `progress` is None or a Python
/// function of (share, where), called a few times a second; what it raises ends the work, and so does Ctrl-C. Throws
/// Error(failure) in a process that was forked after the first use, where neither Kokkos nor OpenMP works.
void run(const std::function<void(const Progress&)>& work, const nanobind::object& progress);

}  // namespace annulus::python
