// Start and end of MPI and Kokkos, in the one order that works: MPI first, so that Kokkos sees the binding the launcher
// made.
#pragma once

#include <string>

#include "annulus/comm/guard.hpp"

namespace annulus::comm {

/// Starts the guard, MPI (FUNNELED) and Kokkos; ends Kokkos, then MPI. One per process, in main, outliving everything
/// else. Kokkos takes its own options (--kokkos-...) out of argc and argv. Each rank takes the GPU of its node-local
/// rank, unless told otherwise; without a GPU a build for GPUs starts without Kokkos (core/kokkos_compat.hpp).
class Runtime {
 public:
  /// `alone`: no launcher started this process, which speaks to no other.
  Runtime(int& argc, char**& argv, bool alone = false);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  Guard guard_;  // around all of it
};

/// Ends the whole job at once with this exit status: for a rank that cannot go on while others may be waiting for it.
/// Files that are being made are removed (core/unfinished_files.hpp).
[[noreturn]] void abort_job(int status);

/// One line naming the MPI library and the standard it keeps.
std::string mpi_library();
/// Name of this rank's machine.
std::string host_name();

}  // namespace annulus::comm
