#include "annulus/app/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "annulus/comm/runtime.hpp"
#include "annulus/core/error.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {
namespace {

using core::Index;
using Lookup = std::function<const char*(const char*)>;

std::optional<Index> number_in(const Lookup& variable, const char* name, Index least) {
  const char* text = variable(name);
  return text == nullptr ? std::nullopt : runfile::parse_whole(text, {least}).number;
}

std::optional<FoundLauncher> found_in(const Lookup& variable, const char* launcher, const char* processes,
                                      const char* process) {
  const auto count = number_in(variable, processes, 1);
  if (!count) return std::nullopt;
  return FoundLauncher{launcher, processes, *count, number_in(variable, process, 0).value_or(0)};
}

std::string what_to_do(const FoundLauncher& wrong, const std::string& library) {
  const std::string own = fmt::format("{} -n {} annulus ...", ANNULUS_MPIEXEC, wrong.processes);
  if (wrong.launcher != "srun") return fmt::format("Use the launcher that it was built with: {}", own);
  const std::string way = slurm_pmi(library);
  return fmt::format("Try srun --mpi={} (`srun --mpi=list` shows what this Slurm offers), or in a batch script: {}",
                     way.empty() ? "pmix or pmi2" : way, own);
}

std::string describe(const FoundLauncher& wrong, int ranks, const std::string& library) {
  return fmt::format(
      "{} started {} processes ({}), but MPI sees {} of them: each would do the whole job. This program was built with "
      "{}, which does not understand that launcher. {}\nTo run one process alone, start it without {} in its "
      "environment (env -u).",
      wrong.launcher, wrong.processes, wrong.variable, ranks, library, what_to_do(wrong, library), wrong.variable);
}

}  // namespace

Launch read_launch(const Lookup& variable) {
  Launch launch;
  launch.of_slurm = found_in(variable, "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID");
  if (const auto found = found_in(variable, "Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")) {
    launch.of_mpi.push_back(*found);
  }
  // If MPICH's mpiexec talks to processes by a port, it does not set PMI_SIZE. Then only the number of processes on
  // this node is known.
  auto pmi = found_in(variable, "mpiexec of MPICH or a relative", "PMI_SIZE", "PMI_RANK");
  if (!pmi) pmi = found_in(variable, "mpiexec of MPICH or a relative", "MPI_LOCALNRANKS", "MPI_LOCALRANKID");
  // srun --mpi=pmi2 sets PMI variables, too. If both numbers of processes are equal, srun has set these variables.
  if (pmi && !(launch.of_slurm && launch.of_slurm->processes == pmi->processes)) launch.of_mpi.push_back(*pmi);
  // Any other launcher is known by the variables of PMI or PMIx that it sets.
  launch.alone = launch.of_mpi.empty() && !launch.of_slurm && !pmi && variable("PMIX_RANK") == nullptr;
  launch.allocated = number_in(variable, "SLURM_NTASKS", 1).value_or(1);
  return launch;
}

std::optional<FoundLauncher> wrong_launcher(const Launch& launch, int ranks) {
  const auto right = [&](const FoundLauncher& found) { return found.processes <= ranks; };
  if (launch.of_mpi.empty()) return launch.of_slurm && !right(*launch.of_slurm) ? launch.of_slurm : std::nullopt;
  // If one launcher runs inside another, either of them may have started the ranks.
  if (std::any_of(launch.of_mpi.begin(), launch.of_mpi.end(), right)) return std::nullopt;
  return launch.of_mpi.front();
}

bool forgot_launcher(const Launch& launch, int ranks) {
  return ranks == 1 && launch.allocated > 1 && launch.of_mpi.empty() && !wrong_launcher(launch, ranks);
}

std::string slurm_pmi(const std::string& library) {
  if (library.starts_with("Open MPI")) return "pmix";
  return library.starts_with("MPICH") ? "pmi2" : "";
}

int check_launch(const Launch& launch, const Verb& verb, const comm::Communicator& comm) {
  const bool only_shows = verb.ranks_matter != RanksMatter::for_work;
  if (const auto wrong = wrong_launcher(launch, comm.size())) {
    const bool prints = wrong->process == 0;  // not comm.is_root(): each process is rank 0 of a job of its own
    if (prints) {
      std::fprintf(stderr, "annulus: %s: %s\n", only_shows ? "warning" : "error",
                   describe(*wrong, comm.size(), comm::mpi_library()).c_str());
    }
    if (only_shows) return 0;
    // The launcher kills all processes when one of them fails, so the others give process 0 two seconds to print.
    if (!prints) std::this_thread::sleep_for(std::chrono::seconds(2));
    return int(core::ErrorKind::usage);
  }
  if (verb.ranks_matter != RanksMatter::never && comm.is_root() && forgot_launcher(launch, comm.size())) {
    std::fprintf(stderr,
                 "annulus: warning: Slurm allocated %lld tasks (SLURM_NTASKS), but this is one process, alone; to use "
                 "all of them write: srun --kill-on-bad-exit=1 annulus %s ...\n",
                 static_cast<long long>(launch.allocated), verb.name.c_str());
  }
  return 0;
}

}  // namespace annulus::app
