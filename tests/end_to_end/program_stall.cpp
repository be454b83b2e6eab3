// Ranks that stop or die in the middle of a run: the run ends by itself, soon, and says why; nothing is left running
// and no result appears.
#include <nlohmann/json.hpp>

#include "launched.hpp"

namespace annulus::test {
namespace {

// A hop takes a fast core about one and a half seconds, so that a signal can reach a rank in the middle of a hop. The
// first progress line comes when rank 0 has finished its own rows, but at the earliest one second after the start:
// every rank then still has hops to do.
const char* const deck = R"(
input: {generate: {sequence: 16384, heads: 8, batch: 2}}
attention: {causal: false}
distribution: {strategy: ring_blocking, stall_timeout: 4}
output: {file: result.h5}
)";

/// Four times the work: the first progress line, after a second, must be about own rows on a fast machine, too.
std::string long_deck() {
  std::string text = deck;
  return text.replace(text.find("batch: 2"), 8, "batch: 8");
}

class Stall : public ProgramTest {
 protected:
  static std::string launch(int ranks, const std::string& flags = "") {
    return fmt::format(ANNULUS_LAUNCH, ranks) + " " + flags + " " + ANNULUS_PROGRAM + " run run.yaml";
  }
  /// Lines of the diagnosis that name this rank.
  static std::vector<std::string> diagnoses(const std::string& err, int rank) {
    std::vector<std::string> found;
    std::istringstream lines(err);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(fmt::format("annulus: stalled: rank {}:", rank)) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  /// Checks that the line names a file with the rank's last events, a kernel among them, and with what it is doing now.
  void expect_events(int rank, const std::string& line) const {
    const std::string name = fmt::format("result.h5.stalled.{}.jsonl", rank);
    EXPECT_TRUE(line.ends_with("; its last steps are in " + (folder / name).string())) << line;
    std::istringstream lines(slurp(folder / name));
    std::vector<nlohmann::json> events;
    for (std::string event; std::getline(lines, event);) events.push_back(nlohmann::json::parse(event));
    ASSERT_GE(events.size(), 2u);
    EXPECT_LE(events.size(), 65u);
    for (const nlohmann::json& event : events) EXPECT_EQ(event.at("rank"), rank);
    const auto is_kernel = [](const nlohmann::json& event) { return event.value("kind", "") == "compute"; };
    EXPECT_GE(std::count_if(events.begin(), events.end(), is_kernel), 1);
    const std::string now = events.back().at("now");
    EXPECT_EQ(now.find("waiting in the attention, hop "), 0u) << now;
  }
};

/// Rank 0 waits until rank 1 has finished its block of the first phase.
TEST_F(Stall, ARankThatStopsInABlockOfStreamEndsARunWithGradients) {
  write("run.yaml", R"(
input: {generate: {sequence: 16384, heads: 8}}
attention: {causal: false}
compute: {backward: true}
distribution: {strategy: stream, block_size: 8192, stall_timeout: 4}
output: {file: result.h5}
)");
  Launched run(folder, launch(2));
  const auto both_compute = [&] { return count(slurp(folder / "result.h5.journal"), " claim 0 ") == 2; };
  ASSERT_TRUE(run.reaches(both_compute, 2)) << run.err();
  run.send(1, SIGSTOP);
  EXPECT_EQ(run.status(90), 4) << run.err();
  EXPECT_EQ(diagnoses(run.err(), 0).size(), 1u) << run.err();
}

TEST_F(Stall, StoppedRankEndsTheRunWithStatus4AndADiagnosisOfEveryLivingRank) {
  write("run.yaml", long_deck());
  Launched run(folder, launch(3));
  ASSERT_TRUE(run.reaches("%  own rows", 3)) << run.err();
  run.send(1, SIGSTOP);
  EXPECT_EQ(run.status(120), 4) << run.err();
  const std::string err = run.err();
  EXPECT_EQ(run.left(), 0);
  EXPECT_FALSE(exists("result.h5"));
#ifdef ANNULUS_GENTLE_LAUNCHER
  const std::vector<std::string> expected{"result.h5.stalled.0.jsonl", "result.h5.stalled.2.jsonl", "run.yaml"};
  std::vector<std::string> left = files();
  std::erase(left, "result.h5.stalled.1.jsonl");  // the stopped rank makes it if its launcher lets it go on
  EXPECT_EQ(left, expected) << "no result and no part of one";
#endif
  for (const int rank : {0, 2}) {
    const auto lines = diagnoses(err, rank);
    ASSERT_EQ(lines.size(), 1u) << "rank " << rank << " in " << err;
    // Both are neighbours of rank 1. One cannot send to it; the other cannot receive from it, or waits for the first.
    for (const char* word : {"waiting in the attention, hop ", " of 2 for ", " bytes in and ", "missing"}) {
      EXPECT_NE(lines[0].find(word), std::string::npos) << word << " is missing in " << lines[0];
    }
    expect_events(rank, lines[0]);
  }
  const std::string all = diagnoses(err, 0)[0] + diagnoses(err, 2)[0];
  EXPECT_TRUE(all.find("from rank 1") != std::string::npos || all.find("to rank 1") != std::string::npos) << all;
  // A stopped rank prints nothing. But a launcher may let it go on in order to end it; then it may notice the alarm.
  for (const std::string& line : diagnoses(err, 1)) {
    EXPECT_NE(line.find("another rank raised the alarm"), std::string::npos) << line;
  }
}

TEST_F(Stall, ARankThatHasSaidThatTheRunStalledIsSilentAboutTheLaunchersSignal) {
  write("run.yaml", long_deck());
  Launched run(folder, launch(2));
  ASSERT_TRUE(run.reaches("%  own rows", 2)) << run.err();
  run.send(1, SIGSTOP);
  const auto has_said = [&] { return run.err().find("annulus: stalled: rank 0:") != std::string::npos; };
  for (int i = 0; i < 12000 && !has_said(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_TRUE(has_said()) << run.err();
  run.send(0, SIGTERM);
  EXPECT_EQ(run.status(120), 4) << run.err();
  EXPECT_EQ(count(run.err(), "annulus: error: rank 0: "), 0) << run.err();
}

TEST_F(Stall, RankThatComputesForLongerThanTheTimeoutIsNotStalled) {
  // Rank 0 holds and computes everything, rank 1 waits for it several times the time-out, which is not shorter because
  // a busy machine may stop rank 0 for some seconds.
  write("run.yaml", deck);
  const Outcome ran =
      annulus(2,
              "run run.yaml --set distribution.strategy=single --set distribution.stall_timeout=3 --set "
              "input.generate.sequence=12288 --set input.generate.batch=4");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(exists("result.h5"));
}

TEST_F(Stall, RanksInsideCallsThatDoNotReturnAreEndedByTheirWatchdogs) {
  const Outcome hung = shell(fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_HANG);
  EXPECT_EQ(hung.status, 4) << hung.err;
  for (const int rank : {0, 1}) {
    const auto lines = diagnoses(hung.err, rank);
    EXPECT_FALSE(exists(fmt::format("unfinished.{}", rank)));
    ASSERT_EQ(lines.size(), 1u) << hung.err;
    EXPECT_NE(lines[0].find("a call of MPI did not return for 4 s"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("in a receive that nobody answers for "), std::string::npos) << lines[0];
  }
}

TEST_F(Stall, ARankThatEndsTheJobTakesAlongTheFilesItKnowsOf) {
  const Outcome aborted = shell(fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_HANG + " abort");
  EXPECT_EQ(aborted.status, 1) << aborted.err;
  EXPECT_EQ(count(aborted.err, "rank 1 ends the job"), 1) << aborted.err;
  EXPECT_FALSE(exists("unfinished.0"));
}

TEST_F(Stall, KilledRankEndsTheRunAndNoResultAppears) {
  write("run.yaml", long_deck());
  // On a crowded machine the launcher may take longer than a short time-out to end the ranks that are left.
  Launched run(folder, launch(3) + " --set distribution.stall_timeout=60");
  ASSERT_TRUE(run.reaches("%  own rows", 3)) << run.err();
  run.send(1, SIGKILL);
  const int status = run.status(60);
  EXPECT_GT(status, 0) << run.err();
  EXPECT_EQ(run.left(), 0);
  EXPECT_FALSE(exists("result.h5"));
  // If the launcher ends the other ranks with TERM, they clean up. Otherwise the next run removes what is left.
  EXPECT_EQ(annulus(1, "run run.yaml --set input.generate.sequence=64").status, 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"result.h5", "run.yaml"}));
}

#ifdef ANNULUS_RECOVERY_FLAG
TEST_F(Stall, SurvivorsOfAKilledRankSayWhatTheyWaitFor) {
  write("run.yaml", long_deck());
  Launched run(folder, launch(3, ANNULUS_RECOVERY_FLAG));
  ASSERT_TRUE(run.reaches("%  own rows", 3)) << run.err();
  run.send(1, SIGKILL);
  EXPECT_NE(run.status(120), -1) << run.err();  // 0 with this launcher, whatever the ranks return
  const std::string err = run.err();
  EXPECT_EQ(run.left(), 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"result.h5.stalled.0.jsonl", "result.h5.stalled.2.jsonl", "run.yaml"}))
      << "the survivors removed what was unfinished, and say what they did last";
  EXPECT_EQ(diagnoses(err, 0).size() + diagnoses(err, 2).size(), 2u) << err;
  EXPECT_NE(err.find("rank 1 outstanding"), std::string::npos) << err;
}
#endif

}  // namespace
}  // namespace annulus::test
