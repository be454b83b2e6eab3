// Signals that ask a run to stop.
#include "annulus/app/stop.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace annulus::app {
namespace {

/// A job script sends USR1 when the time suffices for a unit; a batch system sends TERM half a minute before it kills.
TEST(WatchForStop, LimitsTheTimeAfterTermAndOnRequestAfterUsr1) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const bool only_after_term : {true, false}) {
    watch_for_stop(comm, /*stall_seconds=*/10, {/*seconds=*/100, "", only_after_term});
    ASSERT_EQ(std::raise(SIGUSR1), 0);
    EXPECT_TRUE(stop_requested());
    EXPECT_EQ(alarm(0) > 0, !only_after_term);
    ASSERT_EQ(std::raise(SIGTERM), 0);
    EXPECT_GT(alarm(0), 90u);
  }
}

}  // namespace
}  // namespace annulus::app
