// How device memory travels: what is said about it, and the child process that tries.
#include "annulus/comm/staging.hpp"

#include <gtest/gtest.h>

#include "annulus/comm/device_probe.hpp"
#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

TEST(Transfers, NameTheMemoryTheWayAndTheReason) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const auto& [wanted, reason] : {std::pair{GpuAware::on, "straight to MPI (distribution.gpu_aware: on)"},
                                       std::pair{GpuAware::off, "through host memory (distribution.gpu_aware: off)"}}) {
    choose_transfers(wanted, comm);
    const std::string expected = core::device_is_host() ? "host memory, straight to MPI" : std::string("device memory");
    EXPECT_EQ(transfers().find(expected), 0u) << transfers();
    EXPECT_EQ(transfers().find(reason) == std::string::npos, core::device_is_host()) << transfers();
  }
}

// This test program is its own child: GoogleTest's filter is the one word that it gets.

TEST(SelfAlone, RunsThisProgramAsAJobOfOneRank) {
  const Communicator comm(MPI_COMM_WORLD);
  if (!comm.is_root()) return;
  EXPECT_EQ(run_self_alone("--gtest_filter=Child.IsARankOfItsOwn", 60), "");
}

TEST(SelfAlone, TellsWhatWentWrong) {
  const Communicator comm(MPI_COMM_WORLD);
  if (!comm.is_root()) return;
  EXPECT_EQ(run_self_alone("--gtest_filter=No.SuchTest", 60), "ended with status 1");
  EXPECT_EQ(run_self_alone("--gtest_filter=Child.IsARankOfItsOwn", 0), "took more than 0 s");
}

TEST(Child, IsARankOfItsOwn) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool is_child = GTEST_FLAG_GET(filter) == "Child.IsARankOfItsOwn";
  EXPECT_TRUE(!is_child || ranks == 1) << ranks;
}

}  // namespace
}  // namespace annulus::comm
