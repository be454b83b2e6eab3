// What started this process: a launcher of another MPI library starts P processes that each take themselves for the
// whole job, and would each compute and write all of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

/// What one launcher wrote into the environment.
struct LauncherWords {
  std::string launcher;  ///< "srun", "Open MPI's mpirun", ...
  std::string variable;  ///< that holds the number of processes
  core::Index processes = 1;
  core::Index process = 0;  ///< this one's number
};

struct Launch {
  std::vector<LauncherWords> of_mpi;  ///< mpirun, mpiexec: they run inside Slurm's steps, so they know better
  std::optional<LauncherWords> of_slurm;
  bool alone = true;          ///< no launcher at all: MPI cannot know of other processes
  core::Index allocated = 1;  ///< tasks of the Slurm job, or of its step
};

/// From the environment. Before MPI starts, because MPI libraries add variables of their own.
Launch read_launch();
/// The same from any lookup: a name's value, or nullptr.
Launch read_launch(const std::function<const char*(const char*)>& variable);

/// The launcher that started more processes than the `ranks` that MPI sees; nothing when all is well. Processes inside
/// an srun step that an mpirun started are its own, and right when that one's number is.
std::optional<LauncherWords> wrong_launcher(const Launch& launch, int ranks);

/// True for one process in an allocation of several tasks that no launcher started: a batch script without srun.
bool forgot_launcher(const Launch& launch, int ranks);

/// srun's --mpi= for an MPI library, by the name that it gives itself: "pmix", "pmi2"; "" for one that the site's own
/// srun knows best (Cray's), or nobody.
std::string slurm_pmi(const std::string& library);

/// 0, or the exit status for a wrong launcher, after the message of one process. Verbs that only show something warn.
int check_launch(const Launch& launch, const Verb& verb, const comm::Communicator& comm);

}  // namespace annulus::app
