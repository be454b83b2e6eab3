// Finds out what started this process. If the launcher belongs to another MPI library than the program, each of the P
// processes that it starts is a job of one rank, and would compute and write everything.
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

/// The values that one launcher has set in the environment.
struct FoundLauncher {
  std::string launcher;  ///< "srun", "Open MPI's mpirun", ...
  std::string variable;  ///< name of the variable that has the number of processes
  core::Index processes = 1;
  core::Index process = 0;  ///< number of this process
};

struct Launch {
  std::vector<FoundLauncher> of_mpi;  ///< mpirun or mpiexec; if one is found, `of_slurm` does not count
  std::optional<FoundLauncher> of_slurm;
  bool alone = true;          ///< no launcher started this process, so it is the only rank
  core::Index allocated = 1;  ///< number of tasks of the Slurm job or, inside a step, of the step
};

/// Reads the environment through `variable`, which returns nullptr for a name that is not set. Call it before MPI
/// starts, because MPI libraries add variables of their own.
Launch read_launch(const std::function<const char*(const char*)>& variable = std::getenv);

/// Returns the launcher that started more processes than the `ranks` that MPI sees; empty if there is none. If mpirun
/// runs inside an srun step, mpirun's number of processes decides, not srun's number of tasks.
std::optional<FoundLauncher> wrong_launcher(const Launch& launch, int ranks);

/// True if one process runs without a launcher in a Slurm job of several tasks. The batch script then lacks srun.
bool forgot_launcher(const Launch& launch, int ranks);

/// The value of srun's --mpi= for this MPI library: "pmix" or "pmi2"; "": unknown, or srun's default is right (Cray).
std::string slurm_pmi(const std::string& library);

/// If the launcher is wrong and the verb does work, prints an error and returns the exit status. Otherwise returns 0,
/// perhaps after a warning: srun was forgotten, or the launcher is wrong but the verb only shows things.
int check_launch(const Launch& launch, const Verb& verb, const comm::Communicator& comm);

}  // namespace annulus::app
