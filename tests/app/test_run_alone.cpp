// run_self_alone(): a rank of a job starts its own program as a child process, which is a job of one rank.
#include "annulus/app/run_alone.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {
namespace {

using comm::Communicator;

// The child is this test program, too. Its only argument is GoogleTest's filter.

TEST(SelfAlone, RunsThisProgramAsAJobOfOneRank) {
  const Communicator comm(MPI_COMM_WORLD);
  if (!comm.is_root()) return;
  EXPECT_EQ(run_self_alone("--gtest_filter=Child.IsARankOfItsOwn", 60), "");
}

TEST(SelfAlone, TellsWhatWentWrong) {
  const Communicator comm(MPI_COMM_WORLD);
  if (!comm.is_root()) return;
  EXPECT_EQ(run_self_alone("--gtest_filter=No.SuchTest", 60), "ended with status 1");
  EXPECT_EQ(run_self_alone("--gtest_filter=Child.TakesLong", 0), "took more than 0 s");
}

TEST(SelfAlone, AStatusThatTheKernelDoesNotKeepIsNoSuccess) {
  const Communicator comm(MPI_COMM_WORLD);
  if (!comm.is_root()) return;
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_self_alone("--gtest_filter=No.SuchTest", 60), "could not be waited for: No child processes");
  std::signal(SIGCHLD, before);
}

TEST(Child, IsARankOfItsOwn) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool is_child = GTEST_FLAG_GET(filter) == "Child.IsARankOfItsOwn";
  EXPECT_TRUE(!is_child || ranks == 1) << ranks;
}

TEST(Child, TakesLong) {
  if (GTEST_FLAG_GET(filter) == "Child.TakesLong") std::this_thread::sleep_for(std::chrono::seconds(60));
}

}  // namespace
}  // namespace annulus::app
