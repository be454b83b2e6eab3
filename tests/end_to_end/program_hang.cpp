// What counts as a hang and what does not. A preloaded library (slow_calls.cpp) makes calls slow. A rank that hangs in
// any call, of any verb, ends the run with status 4 soon; work that lasts longer than the time-out does not end it.
#include "launched.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {generate: {sequence: 64, heads: 4, head_dim: 8}}
attention: {segments: [16], dilations: [1]}
distribution: {strategy: ring, stall_timeout: 3}
output: {file: result.h5}
)";
const char* const file_deck = R"(
input: {file: NAME}
attention: {segments: [16], dilations: [1]}
distribution: {strategy: ring, stall_timeout: 3}
output: {file: result.h5}
)";
const char* const tensors = "generate --output in.h5 --sequence 64 --heads 4 --head-dim 8";

class Hang : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml", deck);
  }
  void write_file_deck(const std::string& input) const {
    std::string text = file_deck;
    write("file.yaml", text.replace(text.find("NAME"), 4, input));
  }
  /// `annulus ARGUMENTS` with slow calls; 0 ranks: without a launcher. It must end before the time limit of shell().
  Outcome slowed(int ranks, const std::string& slow, const std::string& arguments) const {
    const std::string launch = ranks > 0 ? fmt::format(ANNULUS_LAUNCH, ranks) + " " : "";
    return shell("env OMPI_MCA_odls_base_sigkill_timeout=0 " + launch + "env ANNULUS_STALL_TIMEOUT=10 LD_PRELOAD=" +
                 ANNULUS_SLOW_CALLS + " " + slow + " " + ANNULUS_PROGRAM + " " + arguments);
  }
  void expect_stalled(const Outcome& ran, const std::vector<std::string>& words) const {
    EXPECT_EQ(ran.status, 4) << ran.err;
    EXPECT_EQ(count(ran.err, "slow: s"), 1) << ran.err;
    for (const std::string& word : words) EXPECT_NE(ran.err.find(word), std::string::npos) << word << " in " << ran.err;
    EXPECT_FALSE(exists("result.h5"));
  }
};

constexpr const char* asleep = "SLOW_SECONDS=50 SLOW_CALL=";
constexpr const char* stopped = "SLOW_SECONDS=stop SLOW_CALL=";

TEST_F(Hang, InTheSplittingOfACommunicator) {
  for (const std::string strategy : {"ulysses", "hybrid"}) {
    const Outcome ran = slowed(2, std::string(asleep) + "MPI_Comm_split SLOW_RANK=1",
                               "run run.yaml --set distribution.strategy=" + strategy);
    expect_stalled(ran, {"stalled: rank 0: a call of MPI did not return for 3 s (distribution.stall_timeout); inside "
                         "MPI_Comm_split in the attention for "});
  }
}

TEST_F(Hang, InTheMakingOfAWindow) {
  if (able({"onesided"}).empty()) return;
  // The first window is the watchdog's own.
  expect_stalled(slowed(2, std::string(asleep) + "MPI_Win_allocate SLOW_NUMBER=2 SLOW_RANK=1",
                        "run run.yaml --set distribution.strategy=onesided"),
                 {"stalled: rank 0: a call of MPI did not return for 3 s", "inside MPI_Win_allocate in the attention"});
}

TEST_F(Hang, InTheMakingOfTheWatchdogItself) {
  expect_stalled(slowed(2, std::string(stopped) + "MPI_Win_allocate SLOW_RANK=1", "run run.yaml"),
                 {"stalled: rank 0: a call of MPI did not return for 10 s (ANNULUS_STALL_TIMEOUT)",
                  "inside MPI_Win_allocate for"});
}

TEST_F(Hang, InTheOpeningOfTheInput) {
  ASSERT_EQ(annulus(1, tensors).status, 0);
  write_file_deck("in.h5");
  for (const int ranks : {0, 2}) {
    expect_stalled(
        slowed(ranks, std::string(asleep) + "open SLOW_PATH=/in.h5 SLOW_RANK=0", "run file.yaml"),
        {"stalled: rank 0: a file operation did not return for 3 s", "inside the opening of ", "/in.h5 for "});
  }
}

TEST_F(Hang, InEveryVerb) {
  ASSERT_EQ(annulus(2, "run run.yaml --set output.file=made.h5").status, 0);
  expect_stalled(slowed(2, std::string(asleep) + "open SLOW_PATH=/made.h5 SLOW_RANK=0",
                        "verify run.yaml --set output.file=made.h5"),
                 {"stalled: rank 0: a file operation did not return for 3 s", "/made.h5"});
  expect_stalled(slowed(2, std::string(asleep) + "\"a hanging fsync\" SLOW_RANK=1",
                        "generate --output result.h5 --sequence 64 --heads 2"),
                 {"stalled: rank 1: a file operation did not return for 10 s", "inside the flushing of "});
  expect_stalled(
      slowed(2, std::string(stopped) + "MPI_Ibarrier SLOW_NUMBER=20 SLOW_RANK=1", "plan --calibrate result.h5"),
      {"stalled: rank 0: no rank made progress for 10 s", "MPI_Ibarrier with all ranks"});
}

TEST_F(Hang, IsNotWhatOtherNumbersOfThreadsOnRanksCauseInBench) {
  write("sweep.yaml",
        "input: {generate: {sequence: 64, heads: 2}}\ndistribution: {stall_timeout: 20}\n"
        "bench: {sweep: [{distribution.strategy: [ring, rotation]}, {threads: [1, 2]}], file: sweep.h5}\n");
  write("launch.sh", "export OMP_NUM_THREADS=$((1 + ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}))\nexec \"$@\"\n");
  const Outcome ran = shell(fmt::format(ANNULUS_LAUNCH, 2) + " sh launch.sh " + ANNULUS_PROGRAM + " bench sweep.yaml");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(
      ran.err.find("annulus: 0 of 4 cases to measure here; bench.sweep has no case for 2 ranks with different numbers"),
      std::string::npos)
      << ran.err;
}

TEST_F(Hang, OfAStoppedRankThatOthersReadHeartbeatsOf) {
  // First rank 0 is stopped, which asks for the heartbeats of the others; then another rank.
  for (const int rank : {0, 2}) {
    expect_stalled(
        slowed(3, std::string(stopped) + fmt::format("MPI_Ibarrier SLOW_NUMBER=4 SLOW_RANK={}", rank), "run run.yaml"),
        {"stalled: rank 1: ", "MPI_Ibarrier with all ranks"});
  }
}

TEST_F(Hang, IsNotTheFlushingOfALargeFileToASlowDisk) {
  // Rank 0 flushes 195 MiB in pieces of 64 MiB. A piece takes 3 s longer than this disk needs. That is less than the
  // time-out of 8 s, also on a slow disk; the whole file in one piece would take more than 9 s.
  const Outcome ran = slowed(2, "SLOW_CALL=fsync SLOW_SECONDS=3 SLOW_RANK=0",
                             "run run.yaml --set input.generate.sequence=16384 --set input.generate.heads=48 --set "
                             "input.generate.head_dim=64 --set distribution.stall_timeout=8");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_GE(count(ran.err, "slow: sleeps"), 2) << ran.err;
  EXPECT_TRUE(exists("result.h5"));
}

TEST_F(Hang, CannotBeWatchedWhereNoThreadCanBeHadAndTheRunGoesOn) {
  const Outcome ran = slowed(2, "SLOW_CALL=pthread_create SLOW_RANK=1", "run run.yaml");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(count(ran.err, "warning: the thread that ends hung calls could not be started"), 1) << ran.err;
  EXPECT_EQ(count(ran.err, "; a call that hangs here is not ended by this rank\n"), 1) << ran.err;
  EXPECT_TRUE(exists("result.h5"));
}

TEST_F(Hang, IsNotWhatAFifoOrADeviceAsInputCauses) {
  ASSERT_EQ(mkfifo((folder / "fifo.h5").c_str(), 0600), 0);
  for (const auto& [file, what] :
       std::vector<std::pair<std::string, std::string>>{{"fifo.h5", "fifo.h5: is a FIFO, expected an HDF5 file"},
                                                        {"/dev/zero", "/dev/zero: is a device, expected an HDF5 file"},
                                                        {".", "is a folder, expected an HDF5 file"}}) {
    write_file_deck(file);
    const Outcome ran = annulus(2, "run file.yaml");
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_NE(ran.err.find(what), std::string::npos) << ran.err;
  }
}

TEST_F(Hang, TimeoutAtTheStartIsANumberOfSeconds) {
  for (const std::string bad : {"0", "-1", "soon", "1s", "nan", "0x10", "010"}) {
    const Outcome ran = shell("env ANNULUS_STALL_TIMEOUT=" + bad + " " + ANNULUS_PROGRAM + " run run.yaml");
    EXPECT_EQ(ran.status, 2) << bad;
    EXPECT_NE(ran.err.find("ANNULUS_STALL_TIMEOUT is '" + bad + "', expected seconds: a finite number above 0"),
              std::string::npos)
        << ran.err;
  }
}

}  // namespace
}  // namespace annulus::test
