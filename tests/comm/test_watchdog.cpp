// What a waiting rank says, what counts as progress, and a run that goes well under a watchdog. That a stalled run ends
// is program_stall's.
#include "annulus/comm/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "annulus/comm/exchange.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::comm {
namespace {

using Kind = Outstanding::Kind;

void work_for(double seconds, const std::function<void()>& poll) {
  for (const double end = core::wall_seconds() + seconds; core::wall_seconds() < end;) {
    poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(Outstanding, AreNamedWithPeerAndBytesEachWay) {
  EXPECT_EQ(describe({{Kind::receive, 3, 512}, {Kind::send, 1, 20}, {Kind::send, 2, 30}}),
            "receive of 512 bytes from rank 3, send of 20 bytes to rank 1, send of 30 bytes to rank 2 outstanding; 512 "
            "bytes in and 50 bytes out are missing");
  EXPECT_EQ(describe({{Kind::collective, 0, 0, "MPI_Ibarrier"}}), "MPI_Ibarrier with all ranks");
}

TEST(Board, EveryRankAddsAndReadsWithoutTheOthers) {
  const Communicator comm(MPI_COMM_WORLD);
  Board board(comm);
  board.add(Board::progress);
  // No rank waits for another one here; numbers arrive when they arrive.
  while (board.look()[Board::progress] < comm.size()) {
  }
  EXPECT_EQ(board.look()[Board::alarm], 0);
}

TEST(Watchdog, RanksThatWaitForOneThatComputesAreNotStalled) {
  const Communicator comm(MPI_COMM_WORLD);
  const double timeout = 0.3;
  const Watchdog watchdog(comm, timeout);
  EXPECT_EQ(is_watched(), comm.size() > 1);
  if (comm.rank() == comm.size() - 1) work_for(5 * timeout, watchdog_progress);
  comm.barrier();  // the others are here long before
}

TEST(Watchdog, LongWorkWithoutPollsOnEveryRankIsNotStalled) {
  const Communicator comm(MPI_COMM_WORLD);
  const double timeout = 0.2;
  const Watchdog watchdog(comm, timeout);
  work_for(3 * timeout, [] {});
  comm.barrier();
}

}  // namespace
}  // namespace annulus::comm
