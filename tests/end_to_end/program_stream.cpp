// Strategy stream through the program: its result is that of any strategy, for any number of ranks and threads, within
// the memory limit. It is refused if it cannot do what is asked.
#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

class ProgramStream : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml", R"(
input: {generate: {sequence: 3001, heads: 4, kv_heads: 2, head_dim: 16, batch: 2}}
attention: {segments: [64, 512, all], dilations: [1, 4, 16]}
compute: {backward: true, memory_limit: 3MiB}
distribution: {strategy: stream}
output: {file: out.h5, statistics: [entropy]}
)");
  }

  std::vector<std::vector<double>> result(const std::string& file) const {
    std::vector<std::vector<double>> all;
    for (const char* name : {"out", "lse", "entropy", "dq", "dk", "dv"}) all.push_back(numbers(folder / file, name));
    return all;
  }
  /// Checks that these arguments are refused with these words, and that no file is made.
  void expect_refused(const std::string& arguments, const std::string& words) const {
    const Outcome outcome = annulus(0, arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << arguments << "\n" << outcome.err;
    EXPECT_FALSE(exists("out.h5") || exists("out.h5.part") || exists("out.h5.journal")) << arguments;
  }
};

TEST_F(ProgramStream, GivesTheSameBitsOnAnyNumberOfRanks) {
  const Outcome one = annulus(1, "run run.yaml");
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find("blocks of"), std::string::npos) << one.out;
  const auto expected = result("out.h5");
  for (const int ranks : {2, 3}) {
    const Outcome several = annulus(ranks, "run run.yaml --set output.file=more.h5 --set output.overwrite=true");
    ASSERT_EQ(several.status, 0) << several.err;
    EXPECT_TRUE(result("more.h5") == expected) << ranks << " ranks: other bits";
  }
  const Outcome verified = annulus(0, "verify run.yaml");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  for (const char* name : {"out", "lse", "entropy", "dq", "dk", "dv"}) EXPECT_EQ(word_on(verified.out, name), "ok");
  EXPECT_EQ(files(), (std::vector<std::string>{"more.h5", "out.h5", "run.yaml"}));
}

/// With `reproducible` the bits depend neither on the size of the blocks nor on the strategy.
TEST_F(ProgramStream, GivesTheBitsOfOtherStrategiesWhereReproducible) {
  const std::string run = "run run.yaml --set compute.reproducible=true --set compute.memory_limit=1GiB ";
  ASSERT_EQ(annulus(0, run + "--set distribution.strategy=single").status, 0);
  const auto expected = result("out.h5");
  for (const char* rows : {"100", "1733"}) {
    const Outcome outcome =
        annulus(2, run + "--set output.file=more.h5 --set output.overwrite=true --set distribution.block_size=" + rows);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(result("more.h5") == expected) << rows << " rows";
  }
}

TEST_F(ProgramStream, IsTakenWhereNothingElseFits) {
  // With one head, passes over heads cannot be taken instead.
  write("long.yaml", R"(
input: {generate: {sequence: 60000, heads: 1, head_dim: 16}}
attention: {segments: [64, all], dilations: [1, 256]}
compute: {memory_limit: 4MiB}
output: {file: out.h5}
)");
  const Outcome plan = annulus(0, "plan long.yaml --ranks 2");
  EXPECT_NE(plan.out.find("auto takes stream"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("* stream"), std::string::npos) << plan.out;
  const Outcome run = annulus(2, "run long.yaml");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("stream (auto)"), std::string::npos) << run.out;
  EXPECT_EQ(annulus(0, "verify long.yaml").status, 0);
  const Outcome roomy = annulus(0, "plan long.yaml --ranks 2 --set compute.memory_limit=1GiB");
  EXPECT_EQ(roomy.out.find("auto takes stream"), std::string::npos) << roomy.out;
}

TEST_F(ProgramStream, IsShownBeforehand) {
  const Outcome all = annulus(0, "run --dry-run run.yaml");
  EXPECT_EQ(all.status, 0) << all.err;
  for (const char* words : {"# stream", "# forward, and dq", "# dk and dv", "blocks of"}) {
    EXPECT_NE(all.out.find(words), std::string::npos) << all.out;
  }
  const Outcome block = annulus(0, "run --dry-run --rank 1 run.yaml");
  EXPECT_EQ(block.status, 0) << block.err;
  EXPECT_NE(block.out.find("# stream, forward and dq, block 1 of"), std::string::npos) << block.out;
  EXPECT_EQ(annulus(0, "run --dry-run --rank 1000 run.yaml").status, 2);
  EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml"}));
}

TEST_F(ProgramStream, RunsWithoutAFileForward) {
  const Outcome timed = annulus(2, "run run.yaml --set output.file=none --set compute.backward=false");
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml"}));
}

TEST_F(ProgramStream, SaysWhatItCannotDo) {
  expect_refused("run run.yaml --set output.file=none", "output.file: strategy stream cannot do this");
  expect_refused("run run.yaml --set output.statistics=[received]", "output.statistics: strategy stream cannot");
  expect_refused("run run.yaml --set distribution.partition=zigzag", "distribution.partition: strategy stream cannot");
  expect_refused("run run.yaml --set compute.memory_limit=1KiB", "compute.memory_limit: a block of");
  expect_refused("run run.yaml --set distribution.strategy=ring --set distribution.block_size=8",
                 "needs partition: block_cyclic, or strategy: stream");
  write("bench.yaml", R"(
input: {generate: {sequence: 300, heads: 2, head_dim: 16}}
distribution: {strategy: stream}
bench: {sweep: [{attention.causal: [true]}], file: sweep.h5}
)");
  const Outcome bench = annulus(0, "bench bench.yaml");
  EXPECT_NE(bench.status, 0);
  EXPECT_NE((bench.out + bench.err).find("only `annulus run` does"), std::string::npos) << bench.out << bench.err;
}

}  // namespace
}  // namespace annulus::test
