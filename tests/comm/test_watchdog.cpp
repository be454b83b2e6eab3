// What a waiting rank says, and what counts as progress, so that the watchdog does not end the run. The test
// program_stall shows that the watchdog ends a stalled run.
#include "annulus/comm/watchdog.hpp"

#include <gtest/gtest.h>

#include <sys/time.h>

#include <chrono>
#include <csignal>
#include <optional>

#include "annulus/comm/exchange.hpp"
#include "annulus/core/metrics.hpp"

namespace {

bool requests_stay_open = false;
bool requests_fail = false;

}  // namespace

/// Replaces MPI's function, so that a test can keep requests in flight for as long as it likes.
extern "C" int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  if (!requests_stay_open || *request == MPI_REQUEST_NULL) return PMPI_Test(request, done, status);
  *done = 0;
  return MPI_SUCCESS;
}

/// Replaces MPI's function. If a test wants it, reports that the last request failed, as if its peer had died.
extern "C" int MPI_Testsome(int count, MPI_Request* requests, int* finished, int* places, MPI_Status* statuses) {
  if (!requests_fail) return PMPI_Testsome(count, requests, finished, places, statuses);
  *finished = 1;
  places[0] = count - 1;
  statuses[0].MPI_ERROR = MPI_ERR_OTHER;
  return MPI_ERR_IN_STATUS;
}

namespace annulus::comm {
namespace {

using Kind = Outstanding::Kind;

/// A time-out in seconds. A busy machine may stop one rank for some seconds while other ranks run; with a shorter
/// time-out these would end the job. One rank alone waits for no other rank.
double long_timeout(const Communicator& comm) { return comm.size() > 1 ? 5 : 1; }
/// Work lasts this many time-outs, so that a rank that took it for a stall would end the job.
constexpr double longer = 1.5;

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

TEST(Requests, PollThatMpiFailsNamesThePeer) {
  Requests requests;
  MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, requests.add({Kind::receive, 2, 0}));
  MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_SELF, requests.add({Kind::receive, 5, 512}));
  requests.advance();  // no request fails
  requests_fail = true;
  try {
    requests.advance();
    ADD_FAILURE() << "a failed request went unnoticed";
  } catch (const core::Error& error) {
    EXPECT_EQ(std::string(error.what()).find("receive of 512 bytes from rank 5: "), 0u) << error.what();
  }
  requests_fail = false;
}

TEST(Heartbeat, EveryRankChangesAndReadsItWithoutTheOthers) {
  const Communicator comm(MPI_COMM_WORLD);
  Heartbeat heartbeat(comm);
  Index before = 0;
  // One rank after another changes progress, twice each; every rank sees every change.
  for (int turn = 0; turn < 2 * comm.size(); ++turn) {
    if (turn % comm.size() == comm.rank()) heartbeat.change(Heartbeat::progress);
    while (heartbeat.look()[Heartbeat::progress] == before) {
    }
    before = heartbeat.look()[Heartbeat::progress];
    EXPECT_GT(before, 0);
    EXPECT_EQ(heartbeat.look()[Heartbeat::alarm], 0);
    comm.barrier();
  }
  heartbeat.change(Heartbeat::alarm);  // all ranks at once: the value of one of them remains
  while (heartbeat.look()[Heartbeat::alarm] == 0) {
  }
  EXPECT_EQ(heartbeat.look()[Heartbeat::progress], before);
}

TEST(Heartbeat, AlarmIsNotLostWhileAWriteOfProgressIsUnderWay) {
  const Communicator comm(MPI_COMM_WORLD);
  Heartbeat heartbeat(comm);
  if (comm.rank() == comm.size() - 1) {
    heartbeat.change(Heartbeat::progress);
    requests_stay_open = true;
    heartbeat.change(Heartbeat::alarm);
    requests_stay_open = false;
  }
  comm.barrier();
  bool heard = false;
  for (const double end = core::wall_seconds() + 60; !heard && core::wall_seconds() < end;) {
    heard = heartbeat.look()[Heartbeat::alarm] > 0;
  }
  EXPECT_TRUE(heard);
  comm.barrier();
}

TEST(Watchdog, RanksThatWaitForOneThatComputesAreNotStalled) {
  const Communicator comm(MPI_COMM_WORLD);
  const double timeout = long_timeout(comm);
  const Watchdog watchdog(comm, timeout);
  EXPECT_EQ(is_watched(), comm.size() > 1);
  if (comm.rank() == comm.size() - 1) work_for(longer * timeout, watchdog_progress);
  comm.barrier();  // the other ranks wait here meanwhile
}

TEST(Watchdog, RanksThatWaitForLongWorkWithoutPollsAreNotStalled) {
  const Communicator comm(MPI_COMM_WORLD);
  const double timeout = long_timeout(comm);
  const Watchdog watchdog(comm, timeout);
  for (const int worker : {0, comm.size() - 1}) {  // all ranks read rank 0's beats; rank 0 reads all beats
    if (comm.rank() == worker) work_for(longer * timeout, [] {});
    comm.barrier();
  }
}

TEST(Watchdog, CallsThatReturnOneAfterAnotherAreNoHang) {
  const Communicator comm(MPI_COMM_WORLD);
  const double timeout = long_timeout(comm);  // four calls long, because ranks learn late that a call has ended
  const Watchdog watchdog(comm, timeout);
  if (comm.rank() == comm.size() - 1) {
    const auto slow_disk = [](double seconds) {
      work_for(seconds, [] {});
      return 0;
    };
    for (int call = 0; call < 6; ++call) blocking("a slow disk", +slow_disk, timeout / 4);
  }
  comm.barrier();
}

TEST(Watchdog, LongWorkWithoutPollsOnEveryRankIsNotStalled) {
  const Communicator comm(MPI_COMM_WORLD);
  const double timeout = long_timeout(comm);  // the calls of MPI that make and free the watchdog's window have it, too
  const Watchdog watchdog(comm, timeout);
  work_for(longer * timeout, [] {});
  comm.barrier();
}

// The time-out is shortened while another rank works without polls. The time that rank 0 has already waited does not
// count, and rank 0 learns in time that the other rank still works.
TEST(Watchdog, AShorterTimeoutCountsFromThenOn) {
  const Communicator comm(MPI_COMM_WORLD);
  std::optional<Watchdog> watchdog(std::in_place, comm, 100);
  constexpr double shorter = 4;  // not less, for the reason at long_timeout()
  std::signal(SIGALRM, [](int) { shorten_stall_timeout(shorter); });
  const itimerval later{{}, {4, 500'000}};  // when rank 0 has waited for longer than the shorter time-out
  setitimer(ITIMER_REAL, &later, nullptr);
  if (comm.rank() == comm.size() - 1) work_for(4.5 + longer * shorter, [] {});
  comm.barrier();
  EXPECT_EQ(stall_timeout(), shorter);
  shorten_stall_timeout(2 * shorter);
  EXPECT_EQ(stall_timeout(), shorter) << "it is never lengthened";
  watchdog.reset();  // brings back the earlier time-out, which is longer
  EXPECT_EQ(stall_timeout(), shorter) << "MPI_Finalize still waits";
  std::signal(SIGALRM, SIG_DFL);
}

}  // namespace
}  // namespace annulus::comm
