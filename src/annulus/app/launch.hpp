// Finds out what started this process. A launcher of another MPI library starts P processes, and each of them believes
// that it is the whole job: each would compute and write everything.
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

/// What one launcher has set in the environment.
struct LauncherWords {
  std::string launcher;  ///< "srun", "Open MPI's mpirun", ...
  std::string variable;  ///< the variable with the number of processes
  core::Index processes = 1;
  core::Index process = 0;  ///< number of this process
};

struct Launch {
  std::vector<LauncherWords> of_mpi;  ///< of mpirun, mpiexec; inside a Slurm step these count, not Slurm's
  std::optional<LauncherWords> of_slurm;
  bool alone = true;          ///< there is no launcher, so MPI cannot know of other processes
  core::Index allocated = 1;  ///< number of tasks of the Slurm job, or of its step
};

/// Reads the environment through `variable`, which returns nullptr for a name that is not set. Call it before MPI
/// starts, because MPI libraries add variables of their own.
Launch read_launch(const std::function<const char*(const char*)>& variable = std::getenv);

/// The launcher that started more processes than the `ranks` that MPI sees; empty if all is well. An mpirun inside an
/// srun step starts processes of its own: then its number decides, not that of srun.
std::optional<LauncherWords> wrong_launcher(const Launch& launch, int ranks);

/// True for one process without a launcher in an allocation of several tasks: a batch script that lacks srun.
bool forgot_launcher(const Launch& launch, int ranks);

/// The value of srun's --mpi= for an MPI library with this name: "pmix", "pmi2"; "" if the site's own srun has the
/// right default (Cray), or if we do not know.
std::string slurm_pmi(const std::string& library);

/// Returns 0 or, if the launcher is wrong, prints why and returns the exit status: 0 for verbs that only show things.
int check_launch(const Launch& launch, const Verb& verb, const comm::Communicator& comm);

}  // namespace annulus::app
