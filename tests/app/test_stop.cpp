// Signals that ask a run to stop. A request cannot be taken back, so the test that begins without one comes first.
#include "annulus/app/stop.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "annulus/app/bench/rounds.hpp"

namespace annulus::app {
namespace {

TEST(StopOfABench, IsNoneIfNoCaseIsLeft) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const runfile::BenchFile file = runfile::bench_file_of(runfile::parse_run_file_tree(
      "input: {generate: {sequence: 16, heads: 1, head_dim: 4}}\n"
      "bench: {file: s.h5, sweep: [{attention.causal: [true, false]}], repeats: 1, warmup: 0}\n",
      "/run.yaml", {}));
  const JobMaker jobs(file, comm);
  std::vector<PlannedCase> cases;
  for (const runfile::BenchCase& one : file.cases) cases.push_back(jobs.plan(one, /*predict=*/true));
  std::size_t begun = 0, finished = 0;
  const CaseListener listener{[&](const std::vector<Index>& numbers) { begun += numbers.size(); },
                              [&](const store::CaseRecord&) {
                                if (++finished == cases.size()) std::raise(SIGUSR1);
                              }};
  ASSERT_FALSE(stop_requested());
  watch_for_stop(/*stall_seconds=*/10);
  const Measured all = measure(jobs, cases, {}, listener, comm);
  EXPECT_TRUE(stop_requested());
  EXPECT_FALSE(all.stopped) << "the request came in the last run";
  EXPECT_EQ(all.cases, 2);
  const Measured none = measure(jobs, cases, {}, listener, comm);
  EXPECT_TRUE(none.stopped);
  EXPECT_EQ(none.cases, 0);
  EXPECT_EQ(begun, cases.size()) << "no case begins after the request";
}

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
