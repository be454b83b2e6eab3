// A launcher's environment variables are compared with the number of ranks that MPI reports. Open MPI 4.1, MPICH 4.0
// and Slurm 22.05 were seen to set the variables that these tests use.
#include "annulus/app/launch.hpp"

#include <gtest/gtest.h>

#include <map>

namespace annulus::app {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_in(const Variables& variables) {
  return read_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}
/// "PMI_SIZE=2, process 1": the variable of a launcher that contradicts MPI's number of ranks, and the number that this
/// launcher gave to this process. "" if there is no contradiction.
std::string wrong(const Variables& variables, int ranks) {
  const auto found = wrong_launcher(launch_in(variables), ranks);
  if (!found) return "";
  return fmt::format("{}={}, process {}", found->variable, found->processes, found->process);
}
bool forgot(const Variables& variables, int ranks) { return forgot_launcher(launch_in(variables), ranks); }

const Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"PMIX_RANK", "1"}};
const Variables hydra{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}};
const Variables step{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}};
const Variables step_of_one{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
const Variables batch{{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}};

/// Variables of a launcher `inner` that was started inside `outer`. If both set a variable, that of `inner` counts.
Variables inside(const Variables& outer, Variables inner) {
  inner.insert(outer.begin(), outer.end());
  return inner;
}

// A process that no launcher started is the only rank. Only such a process may start MPI without a network.
TEST(Launch, AloneIsWhatNobodyLaunched) {
  EXPECT_TRUE(launch_in({}).alone);
  EXPECT_TRUE(launch_in(batch).alone) << "no srun";
  for (const Variables& launched : {mpirun, hydra, step, step_of_one, Variables{{"PMIX_RANK", "0"}}}) {
    EXPECT_FALSE(launch_in(launched).alone) << launched.begin()->first;
  }
}

TEST(Launch, TheRightLauncherIsRight) {
  for (const Variables& variables : {mpirun, hydra, step, inside(batch, mpirun), inside(batch, hydra),
                                     inside(step_of_one, mpirun), inside(step_of_one, hydra)}) {
    EXPECT_EQ(wrong(variables, 2), "");
    EXPECT_FALSE(forgot(variables, 2));
  }
  EXPECT_EQ(wrong({}, 1), "");
  EXPECT_EQ(wrong(step_of_one, 1), "");
}

// The texts begin as those of MPI_Get_library_version do: Debian's Open MPI and MPICH, Cray MPICH, Intel MPI.
TEST(Launch, TheMpiLibraryTellsWhichPmiSrunShallSpeak) {
  EXPECT_EQ(slurm_pmi("Open MPI v4.1.4 (MPI 3.1)"), "pmix");
  EXPECT_EQ(slurm_pmi("MPICH Version:\t4.0.2 (MPI 4.0)"), "pmi2");
  EXPECT_EQ(slurm_pmi("MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2) (MPI 3.1)"), "");
  EXPECT_EQ(slurm_pmi("Intel(R) MPI Library 2021.9 for Linux* OS (MPI 3.1)"), "");
}

TEST(Launch, AWrongOneStartedMoreThanMpiSees) {
  EXPECT_EQ(wrong(mpirun, 1), "OMPI_COMM_WORLD_SIZE=2, process 1");
  EXPECT_EQ(wrong(hydra, 1), "PMI_SIZE=2, process 1");
  EXPECT_EQ(wrong(step, 1), "SLURM_STEP_NUM_TASKS=2, process 1");
  EXPECT_EQ(wrong(inside(batch, mpirun), 1), "OMPI_COMM_WORLD_SIZE=2, process 1");
  EXPECT_EQ(wrong(inside(step_of_one, hydra), 1), "PMI_SIZE=2, process 1");
  EXPECT_EQ(wrong({{"MPI_LOCALNRANKS", "3"}, {"MPI_LOCALRANKID", "2"}}, 1), "MPI_LOCALNRANKS=3, process 2");
  EXPECT_FALSE(forgot(step, 1));
}

TEST(Launch, SrunThatSpeaksPmiIsSrun) {
  const Variables pmi2 = inside(step, {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}});
  EXPECT_EQ(wrong(pmi2, 2), "");
  EXPECT_EQ(wrong(pmi2, 1), "SLURM_STEP_NUM_TASKS=2, process 1");
}

TEST(Launch, AnMpirunInsideAStepDecides) {
  // srun -n 2 bash -c 'mpirun -n 1 annulus ...' does this, and an mpiexec whose own daemons are tasks of a Slurm step.
  const Variables one{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}};
  EXPECT_EQ(wrong(inside(step, one), 1), "");
  EXPECT_EQ(wrong(inside(step, {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}), 1), "");
  EXPECT_FALSE(forgot(inside(batch, one), 1));
  // With one launcher inside another, it is enough that one of them agrees with MPI's number of ranks.
  EXPECT_EQ(wrong(inside(mpirun, {{"PMI_SIZE", "1"}}), 1), "");
  EXPECT_EQ(wrong(inside(mpirun, {{"PMI_SIZE", "4"}}), 1), "OMPI_COMM_WORLD_SIZE=2, process 1");
}

TEST(Launch, AForgottenSrunIsNotAnError) {
  EXPECT_EQ(wrong(batch, 1), "");
  EXPECT_TRUE(forgot(batch, 1));
  EXPECT_TRUE(forgot(inside(batch, {{"SLURM_STEP_NUM_TASKS", "1"}}), 1));  // the interactive step of salloc
  EXPECT_FALSE(forgot(step_of_one, 1));
  EXPECT_FALSE(forgot({}, 1));
  EXPECT_FALSE(forgot(batch, 2));
}

TEST(Launch, NonsenseSaysNothing) {
  EXPECT_EQ(wrong({{"PMI_SIZE", "many"}, {"OMPI_COMM_WORLD_SIZE", ""}, {"SLURM_STEP_NUM_TASKS", "0"}}, 1), "");
  EXPECT_EQ(wrong({{"PMI_SIZE", "2"}, {"PMI_RANK", "-"}}, 1), "PMI_SIZE=2, process 0");
}

}  // namespace
}  // namespace annulus::app
