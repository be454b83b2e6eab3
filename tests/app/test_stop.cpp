// Signals that ask a run to stop.
#include "annulus/app/stop.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace annulus::app {
namespace {

/// A job script sends USR1 while there is time to finish a unit; a batch system sends TERM half a minute before KILL.
TEST(WatchForStop, LimitsTheTimeAfterTermAndOnRequestAfterUsr1) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const bool only_after_term : {true, false}) {
    for (const int signal : {SIGUSR1, SIGTERM}) {
      watch_for_stop(comm, /*stall_seconds=*/10, {/*seconds=*/100, "", only_after_term});
      ASSERT_EQ(std::raise(signal), 0);
      EXPECT_TRUE(stop_requested());
      EXPECT_EQ(alarm(0) > 90, signal == SIGTERM || !only_after_term) << signal;
    }
  }
}

/// Launchers and users may send a signal several times.
TEST(WatchForStop, FurtherRequestsDoNotPostponeTheEnd) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const int first : {SIGUSR1, SIGTERM}) {
    watch_for_stop(comm, /*stall_seconds=*/10, {/*seconds=*/100, ""});
    ASSERT_EQ(std::raise(first), 0);
    EXPECT_GT(alarm(50), 90u);  // from here on as if 50 s had passed
    for (const int further : {SIGTERM, SIGUSR1}) ASSERT_EQ(std::raise(further), 0);
    const unsigned left = alarm(0);
    EXPECT_GT(left, 0u) << first;
    EXPECT_LE(left, 50u) << first;
  }
}

}  // namespace
}  // namespace annulus::app
