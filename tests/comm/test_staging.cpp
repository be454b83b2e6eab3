// How messages in device memory travel: which way is chosen, and the text that describes it.
#include "annulus/comm/staging.hpp"

#include <gtest/gtest.h>

#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

TEST(Transfers, NameTheMemoryTheWayAndTheReason) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const auto& [wanted, reason] : {std::pair{GpuAware::on, "straight to MPI (distribution.gpu_aware: on, "},
                                       std::pair{GpuAware::off, "through host memory (distribution.gpu_aware: off)"}}) {
    choose_transfers(wanted, comm, [] { return ""; });
    const std::string expected = core::device_is_host() ? "host memory, straight to MPI" : std::string("device memory");
    EXPECT_EQ(transfers().find(expected), 0u) << transfers();
    EXPECT_EQ(transfers().find(reason) == std::string::npos, core::device_is_host()) << transfers();
  }
}

TEST(Transfers, GoByTheTrialAndAskForNoneOnHostMemory) {
  const Communicator comm(MPI_COMM_WORLD);
  for (const GpuAware wanted : {GpuAware::automatic, GpuAware::on}) {
    int trials = 0;
    testing::internal::CaptureStderr();
    choose_transfers(wanted, comm, [&] {
      ++trials;
      return "ended with status 1";
    });
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_EQ(trials, comm.is_root() && !core::device_is_host() ? 1 : 0);
    EXPECT_EQ(transfers().find("ended with status 1") == std::string::npos, core::device_is_host()) << transfers();
    EXPECT_EQ(warning.find("set it to auto or off") == std::string::npos,
              core::device_is_host() || wanted == GpuAware::automatic || !comm.is_root())
        << warning;
  }
}

}  // namespace
}  // namespace annulus::comm
