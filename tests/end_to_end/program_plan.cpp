// `annulus plan`: the table, what `auto` takes in runs and why, machine files, and mistakes.
#include "program.hpp"

namespace annulus::test {
namespace {

class Plans : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml",
          "input: {generate: {sequence: 65536, heads: 8, head_dim: 64}}\n"
          "attention: {segments: [2048, 8192, 32768, all], dilations: [1, 4, 16, 64], causal: false}\n"
          "output: {file: o.h5}\n");
    write("small.yaml",
          "input: {generate: {sequence: 600, heads: 2, head_dim: 16}}\noutput: {file: small.h5, overwrite: true}\n"
          "distribution: {local_below: 0}\n");
  }
  /// The line of the table that starts with these words, its marks left out.
  static std::vector<std::string> line(const std::string& table, const std::string& strategy,
                                       const std::string& partition) {
    std::stringstream lines(table);
    for (std::string text; std::getline(lines, text);) {
      std::stringstream words(text);
      std::vector<std::string> all;
      for (std::string word; words >> word;) {
        if (word != "*") all.push_back(word);
      }
      if (all.size() > 2 && all[0] == strategy && all[1] == partition) return all;
    }
    return {};
  }
};

TEST_F(Plans, TableHasEveryStrategyAndTheBytesOfTheMainSetting) {
  const Outcome planned = annulus(0, "plan run.yaml --ranks 4");
  ASSERT_EQ(planned.status, 0) << planned.err;
  const Outcome list = annulus(0, "list");
  std::stringstream lines(list.out.substr(0, list.out.find("reproducible (")));
  std::string text;
  std::getline(lines, text);  // the heading
  int strategies = 0;
  while (std::getline(lines, text)) {
    std::string name;
    std::stringstream(text) >> name;
    if (name == "auto" || able({name}).empty()) continue;
    EXPECT_NE(planned.out.find(" " + name + " "), std::string::npos) << name << " is missing in:\n" << planned.out;
    ++strategies;
  }
  EXPECT_GE(strategies, 6);
  // strategy partition time unit compute unit exposed unit memory unit MiB messages balance
  const auto rotation = line(planned.out, "rotation", "contiguous"), ring = line(planned.out, "ring", "contiguous");
  ASSERT_EQ(rotation.size(), 13u) << planned.out;
  ASSERT_EQ(ring.size(), 13u) << planned.out;
  EXPECT_EQ(rotation[10], "6.0");
  EXPECT_EQ(rotation[11], "3");
  EXPECT_EQ(ring[10], "9.0");
  for (const char* word : {"built-in default", "auto takes ", "predicted"}) {
    EXPECT_NE(planned.out.find(word), std::string::npos) << word << " is missing in:\n" << planned.out;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml", "small.yaml"})) << "a plan leaves nothing";
}

TEST_F(Plans, ForMoreRanksThanAnyMachineHereHas) {
  const Outcome planned = annulus(2, "plan run.yaml --ranks 65536");
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("65536 ranks"), std::string::npos) << planned.out;
  EXPECT_EQ(count(planned.out, "auto takes"), 1) << "only one rank speaks";
  EXPECT_NE(planned.out.find("~"), std::string::npos) << "one row per rank: not every rank reads every offset";
}

TEST_F(Plans, RunAndDryRunSayWhatAutoTookAndWhy) {
  const Outcome ran = annulus(3, "run small.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("(auto) on 3 ranks"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("predicted"), std::string::npos) << ran.out;
  const Outcome dry = annulus(0, "run --dry-run --ranks 3 small.yaml");
  EXPECT_NE(dry.out.find("# auto takes "), std::string::npos) << dry.out;
  const Outcome local = annulus(3, "run small.yaml --set distribution.local_below=601");
  ASSERT_EQ(local.status, 0) << local.err;
  EXPECT_NE(local.out.find("single (auto) on 3 ranks"), std::string::npos) << local.out;
  EXPECT_NE(local.out.find("600 rows are fewer than distribution.local_below, 601"), std::string::npos) << local.out;
}

TEST_F(Plans, CalibrateMakesAMachineFileThatPlansAndRunsGoBy) {
  const Outcome measured = annulus(2, "plan --calibrate m.yaml");
  ASSERT_EQ(measured.status, 0) << measured.err;
  const std::string text = slurp(folder / "m.yaml");
  EXPECT_EQ(text, measured.out);
  for (const char* word : {"# git_commit", "# hosts", "# ranks: 2", "seconds_per_gflop", "overlap"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in:\n" << text;
  }
  const Outcome planned = annulus(0, "plan run.yaml --ranks 2 --machine m.yaml");
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("m.yaml: "), std::string::npos) << planned.out;
  EXPECT_EQ(planned.out.find("built-in default"), std::string::npos);
  // A machine on which a message takes a minute computes on one rank; the run goes by the file, too.
  const std::size_t at = text.find("seconds_per_message: ");
  std::string slow = text;
  slow.replace(at, text.find(" #", at) - at, "seconds_per_message: 60");
  write("slow.yaml", slow);
  const Outcome ran = annulus(2, "run small.yaml --set distribution.machine=slow.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("single (auto) on 2 ranks"), std::string::npos) << ran.out;
}

TEST_F(Plans, Mistakes) {
  const auto expect = [&](const std::string& arguments, int status, const std::vector<std::string>& words) {
    for (const int ranks : {0, 2}) {
      const Outcome outcome = annulus(ranks, arguments);
      EXPECT_EQ(outcome.status, status) << arguments << ": " << outcome.err;
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1) << arguments << ": " << outcome.err;
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    }
  };
  expect("plan", 2, {"--calibrate"});
  expect("plan run.yaml --calibrate m.yaml", 2, {"--calibrate"});
  expect("plan run.yaml --ranks 0", 2, {"--ranks"});
  expect("plan run.yaml --ranks 65537", 2, {"--ranks"});
  expect("plan absent.yaml --ranks 4", 2, {"absent.yaml"});
  expect("plan run.yaml --machine absent.yaml", 2, {"absent.yaml"});
  write("bad.yaml", "kernel: 3\n");
  expect("plan run.yaml --machine bad.yaml", 2, {"bad.yaml:1:9", "section"});
  expect("run small.yaml --set distribution.machine=bad.yaml", 2, {"bad.yaml:1:9", "section"});
  expect("plan --calibrate absent/m.yaml", 1, {"absent/m.yaml"});
}

}  // namespace
}  // namespace annulus::test
