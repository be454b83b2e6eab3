// The program on two hosts that only a network joins (two_hosts.sh). MPI runs other code there than between ranks that
// share memory.
#include "launched.hpp"

namespace annulus::test {
namespace {

class Hosts : public ProgramTest {
 protected:
  void SetUp() override {
    setenv("OMPI_MCA_btl", "self,vader,tcp", /*overwrite=*/1);  // other tests run without the network
    ProgramTest::SetUp();
  }
  /// Two ranks on each host.
  static std::string launch(const std::string& arguments) {
    std::string launch = fmt::format(ANNULUS_TWO_HOSTS " " ANNULUS_LAUNCH, 4);
    // Without the word "slot" Open MPI 5 starts all ranks on the first host.
    const std::size_t mapping = launch.find(":OVERSUBSCRIBE");
    if (mapping != std::string::npos) launch.insert(mapping, "slot");
    // Without the flag Open MPI's process on the second host is no descendant of mpirun, and Launched does not find it.
    return launch + " --leave-session-attached " ANNULUS_PROGRAM " " + arguments;
  }
};

TEST_F(Hosts, AreBothInUse) {
  const Outcome info = shell(launch("info"));
  ASSERT_EQ(info.status, 0) << info.err;
  EXPECT_EQ(count(info.out, "  first-host, "), 2) << info.out;
  EXPECT_EQ(count(info.out, "  second-host, "), 2) << info.out;
}

TEST_F(Hosts, EveryStrategyGivesOutputsAndGradients) {
  write("run.yaml", R"(
input: {generate: {sequence: 203, heads: 4, kv_heads: 2, head_dim: 8, batch: 2}}
attention: {segments: [32, 96, all], dilations: [1, 2, 5], causal: true}
compute: {backward: true}
distribution: {stall_timeout: 20}
output: {file: result.h5, overwrite: true}
)");
  for (const std::string& strategy : strategies()) {
    SCOPED_TRACE(strategy);
    const std::string chosen = " run.yaml --set distribution.strategy=" + strategy;
    const Outcome ran = shell(launch("run" + chosen));
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(count(ran.err, "warning"), 0) << ran.err;
    const Outcome verified = annulus(0, "verify" + chosen);
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    for (const char* dataset : {"out", "lse", "dq", "dk", "dv"}) EXPECT_EQ(word_on(verified.out, dataset), "ok");
  }
}

TEST_F(Hosts, WithoutWindowsTheRestStillWorks) {
  // Open MPI 4 takes this component by default, but cannot make windows between hosts with it. Other versions may.
  const std::string choice = "env OMPI_MCA_osc=rdma ";
  write("run.yaml", R"(
input: {generate: {sequence: 203, heads: 4, head_dim: 8}}
output: {file: result.h5, overwrite: true}
)");
  const Outcome onesided = shell(choice + launch("run run.yaml --set distribution.strategy=onesided"));
  const Outcome ring = shell(choice + launch("run run.yaml --set distribution.strategy=ring"));
  EXPECT_EQ(ring.status, 0) << ring.err;
  EXPECT_TRUE(exists("result.h5"));
  const bool windows = onesided.status == 0;
  EXPECT_EQ(count(ring.err, "annulus: warning: MPI_Win_allocate: "), windows ? 0 : 1) << ring.err;
  if (windows) return;
  EXPECT_EQ(onesided.status, 1) << onesided.err;
  for (const char* word : {"MPI_Win_allocate of ", " bytes for ", "another strategy than onesided"}) {
    EXPECT_NE(onesided.err.find(word), std::string::npos) << word << " is missing in " << onesided.err;
  }
}

TEST_F(Hosts, StoppedRankOfTheOtherHostEndsTheRun) {
  write("run.yaml", R"(
input: {generate: {sequence: 16384, heads: 8, batch: 8}}
attention: {causal: false}
distribution: {strategy: ring, stall_timeout: 4}
output: {file: result.h5}
)");
  Launched run(folder, launch("run run.yaml"));
  ASSERT_TRUE(run.reaches(" %  ", 4)) << run.err();
  run.send(3, SIGSTOP);
  EXPECT_EQ(run.status(most_seconds), 4) << run.err();
  EXPECT_EQ(run.left(), 0);
  EXPECT_FALSE(exists("result.h5"));
  EXPECT_NE(run.err().find("annulus: stalled: rank 2: "), std::string::npos) << run.err();
}

}  // namespace
}  // namespace annulus::test
