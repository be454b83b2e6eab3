// Starts and ends MPI and Kokkos in the only order that works: MPI starts first, so that Kokkos knows to which cores
// the launcher has bound this process.
#pragma once

#include <string>

#include "annulus/comm/guard.hpp"

namespace annulus::comm {

/// Starts the guard, MPI (FUNNELED) and Kokkos; ends Kokkos, then MPI. Make one Runtime per process, in main; it must
/// outlive all objects that use MPI or Kokkos. Removes Kokkos' own options (--kokkos-...) from argc and argv. A rank's
/// number in its node selects a GPU, unless an option names a GPU. Without a GPU, a build for GPUs does not start
/// Kokkos (core/kokkos_compat.hpp).
class Runtime {
 public:
  /// `alone`: no launcher started this process, and there are no other ranks. If MPI's thread level is below FUNNELED,
  /// prints an error and ends the job.
  Runtime(int& argc, char**& argv, bool alone = false);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  Guard guard_;  // lives longer than MPI and Kokkos
};

/// Ends the whole job at once with this exit status. Call this function if this rank cannot go on and other ranks may
/// wait for it. Removes unfinished files (core/unfinished_files.hpp).
[[noreturn]] void abort_job(int status);

/// Returns one line with the MPI library and the version of the standard that it implements.
std::string mpi_library();
/// Returns the name of this rank's machine.
std::string host_name();

}  // namespace annulus::comm
