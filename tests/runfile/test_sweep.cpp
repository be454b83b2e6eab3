// bench.sweep and bench.skip: which cases they mean; the message of a mistake gives its line and column.
#include <gtest/gtest.h>

#include "annulus/runfile/bench_file.hpp"
#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {
namespace {

const std::string shared = "input: {generate: {heads: 4, head_dim: 8}}\n";

BenchFile bench(const std::string& sweep, const std::string& more = "", const std::string& front = shared) {
  return bench_file_of(
      parse_run_file_tree(front + "bench:\n  file: s.h5\n" + more + "  sweep:\n" + sweep, "/data/run.yaml", {}));
}

/// One line for each case, with the values of the swept keys: "ring 4096".
std::string listed(const BenchFile& file) {
  std::string text;
  for (const BenchCase& one : file.cases) {
    EXPECT_EQ(one.number, std::count(text.begin(), text.end(), '\n'));
    for (const auto& [key, value] : one.values) text += (&value == &one.values.front().second ? "" : " ") + value.text;
    text += "\n";
  }
  return text;
}

TEST(Sweep, AxesAreMultipliedAndKeysOfOneChangeTogether) {
  EXPECT_EQ(listed(bench("    - distribution.strategy: [ring, rotation]\n"
                         "    - input.generate.sequence: [8, 16]\n"
                         "      attention.scale: [0.5, 0.25]\n")),
            "ring 8 0.5\nring 16 0.25\nrotation 8 0.5\nrotation 16 0.25\n");
}

TEST(Sweep, RangesGoUpToTheirEnd) {
  const auto values = [](const std::string& range) {
    return listed(bench("    - input.generate.sequence: " + range + "\n"));
  };
  EXPECT_EQ(values("{from: 4096, to: 65536, times: 2}"), "4096\n8192\n16384\n32768\n65536\n");
  EXPECT_EQ(values("{from: 3, to: 100, times: 5}"), "3\n15\n75\n");
  EXPECT_EQ(values("{from: 1, to: 10, step: 4}"), "1\n5\n9\n");
  EXPECT_EQ(values("{from: 7, to: 7, step: 4}"), "7\n");
  EXPECT_EQ(values("{from: 1, to: 4611686018427387903, times: 2000000000}"), "1\n2000000000\n4000000000000000000\n");
}

TEST(Sweep, ListsOfListsAreValues) {
  const BenchFile file = bench(
      "    - attention.segments: [[2048, all], [all]]\n"
      "      attention.dilations: [[1, 8], [1]]\n"
      "    - input.generate.sequence: [4096]\n");
  EXPECT_EQ(listed(file), "[2048, all] [1, 8] 4096\n[all] [1] 4096\n");
  EXPECT_EQ(file.run_file(file.cases[0]).settings.attention.pattern.pairs.size(), 2u);
  EXPECT_EQ(file.run_file(file.cases[1]).settings.attention.pattern.pairs.size(), 1u);
}

TEST(Sweep, ACaseIsTheRunFileWithItsValues) {
  const BenchFile file = bench("    - input.generate.sequence: [8, 16]\n      distribution.strategy: [ring, auto]\n",
                               "  repeats: 3\n", shared + "output: {file: never.h5, report: r.json}\n");
  const Settings s = file.run_file(file.cases[1]).settings;
  EXPECT_EQ(s.input.generate->shape.sequence, 16);
  EXPECT_EQ(s.input.generate->shape.heads, 4);
  EXPECT_EQ(s.distribution.strategy, "auto");
  EXPECT_FALSE(s.output.writes_file());
  EXPECT_FALSE(s.output.report);
  EXPECT_FALSE(s.bench);
  EXPECT_EQ(file.settings.repeats, 3);
  EXPECT_EQ(file.settings.file, "/data/s.h5");
}

TEST(Sweep, AKeyNamedInTheSweepOverridesTheRunFiles) {
  const BenchFile file = bench("    - input.generate.sequence: [8]\n    - attention.causal: [false]\n", "",
                               shared + "attention: {causal: true}\n");
  EXPECT_FALSE(file.run_file(file.cases[0]).settings.attention.pattern.causal);
}

TEST(Sweep, ConditionsLeaveCasesOut) {
  const std::string sweep =
      "    - distribution.strategy: [ring, ulysses]\n    - input.generate.sequence: {from: 8, to: 32, times: 2}\n";
  EXPECT_EQ(listed(bench(sweep, "  skip: [{distribution.strategy: ulysses, input.generate.sequence: 32}]\n")),
            "ring 8\nring 16\nring 32\nulysses 8\nulysses 16\n");
  EXPECT_EQ(listed(bench(sweep, "  skip: [{distribution.strategy: ulysses}, {input.generate.sequence: 8}]\n")),
            "ring 16\nring 32\n");
  EXPECT_EQ(bench(sweep, "  skip: []\n").cases.size(), 6u);
}

TEST(Sweep, RanksAndThreadsSayWhoMeasures) {
  const BenchFile file = bench("    - ranks: [1, 2]\n      threads: [2, 1]\n      input.generate.sequence: [8, 16]\n");
  EXPECT_EQ(listed(file), "1 2 8\n2 1 16\n");
  EXPECT_EQ(file.run_file(file.cases[1]).settings.input.generate->shape.sequence, 16);
}

TEST(Sweep, IsWrittenAsItIsRead) {
  const std::string sweep =
      "    - input.file: [a.h5, \"b c.h5\"]\n    - attention.segments: [[8, all]]\n      attention.dilations: [[1, "
      "2]]\n";
  const BenchFile file = bench(sweep, "  skip: [{input.file: a.h5}]\n", "");
  Settings settings;
  settings.bench = file.settings;
  std::string text;
  for (const auto& key : run_file_keys()) {
    if (key.name.starts_with("bench.")) text += key.name.substr(6) + ": " + key.text(settings) + "\n";
  }
  EXPECT_NE(text.find("sweep: [{input.file: [a.h5, \"b c.h5\"]}, {attention.segments: [[8, all]], "
                      "attention.dilations: [[1, 2]]}]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("skip: [{input.file: a.h5}]"), std::string::npos) << text;
  const std::string resolved = "bench: " + std::string("{") + [&] {
    std::string one_line = text;
    for (char& c : one_line) c = c == '\n' ? ',' : c;
    return one_line;
  }() + "}\n";
  EXPECT_EQ(listed(bench_file_of(parse_run_file_tree(resolved, "/data/run.yaml", {}))), listed(file));
}

TEST(Sweep, OfStatisticsIsNone) {
  const std::string front = "input: {file: a.h5}\noutput: {statistics: [top]}\n";
  try {
    bench("    - attention.causal: [true]\n", "", front);
    ADD_FAILURE() << "accepted";
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(),
                 "/data/run.yaml:2:10: output.statistics: bench makes none, expected []; `annulus run` does");
  }
}

struct Bad {
  const char* name;
  std::string sweep;
  std::string more;
  const char* place;
  const char* says;
};
std::ostream& operator<<(std::ostream& to, const Bad& bad) { return to << bad.name; }
class BadSweep : public testing::TestWithParam<Bad> {};

// In the run file, line 1 is the input, lines 2 and 3 are bench and its file, line 4 is `more`; the sweep follows.
TEST_P(BadSweep, IsRefusedWithItsPlace) {
  const Bad& bad = GetParam();
  std::string message;
  try {
    const BenchFile file = bench(bad.sweep, bad.more);
    for (const BenchCase& one : file.cases) file.run_file(one);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    message = error.what();
  }
  EXPECT_NE(message.find(std::string("run.yaml:") + bad.place + ": "), std::string::npos) << message;
  EXPECT_NE(message.find(bad.says), std::string::npos) << message << "\nexpected to contain: " << bad.says;
}

const std::string rows = "    - input.generate.sequence: [8, 16]\n";
INSTANTIATE_TEST_SUITE_P(
    Of, BadSweep,
    testing::Values(
        Bad{"NoList", "    {}\n", "", "5:5", "expected a list"},
        Bad{"NoAxes", "    []\n", "", "5:5", "the list is empty, expected at least one entry"},
        Bad{"EmptyAxis", "    - {}\n", "", "5:7", "expected keys with their values"},
        Bad{"NoValues", "    - attention.causal: []\n", "", "5:25", "attention.causal: the list is empty"},
        Bad{"OneValue", "    - attention.causal: true\n", "", "5:25", "expected a list of values, for example [true]"},
        Bad{"UnevenAxis", rows + "      attention.causal: [true]\n", "", "6:7",
            "attention.causal has 1 values, input.generate.sequence of the same axis has 2"},
        Bad{"UnknownKey", "    - distribution.stategy: [ring]\n", "", "5:7", "did you mean 'distribution.strategy'?"},
        Bad{"KeyWithoutSection", "    - strategy: [ring]\n", "", "5:7", "did you mean 'distribution.strategy'?"},
        Bad{"BenchKey", "    - bench.repeats: [1, 2]\n", "", "5:7", "bench.repeats cannot vary"},
        Bad{"OutputKey", "    - output.file: [a.h5]\n", "", "5:7", "output.file cannot vary"},
        Bad{"TwoAxes", rows + rows, "", "6:7", "input.generate.sequence is swept twice, first at /data/run.yaml:5:7"},
        Bad{"RangeDown", "    - input.generate.sequence: {from: 8, to: 4, step: 1}\n", "", "5:32", "`from` <= `to`"},
        Bad{"RangeWithoutStep", "    - input.generate.sequence: {from: 8, to: 9}\n", "", "5:32",
            "{from: 1, to: 8, times: 2} or"},
        Bad{"RangeOfBoth", "    - input.generate.sequence: {from: 8, to: 9, step: 1, times: 2}\n", "", "5:32",
            "{from: 1, to: 8, times: 2} or"},
        Bad{"TimesOne", "    - input.generate.sequence: {from: 8, to: 9, times: 1}\n", "", "5:56", "2 or more"},
        Bad{"FromZeroTimes", "    - input.generate.sequence: {from: 0, to: 9, times: 2}\n", "", "5:32",
            "`from` above 0"},
        Bad{"RangeWord", "    - input.generate.sequence: {from: 8, to: 9, stop: 1}\n", "", "5:49",
            "unknown key 'stop'"},
        Bad{"RangeOfText", "    - input.generate.sequence: {from: 8, to: x, step: 1}\n", "", "5:46", "found 'x'"},
        Bad{"Many",
            "    - input.generate.sequence: {from: 1, to: 99999, step: 1}\n    - attention.causal: [true, false]\n", "",
            "6:7", "more than 100000 cases"},
        Bad{"ManyLongValues",
            "    - input.generate.sequence: {from: 1, to: 90000, step: 1}\n    - attention.segments: [[" +
                fmt::format("{}", fmt::join(std::vector<int>(30, 8), ", ")) + "]]\n",
            "", "5:7", "90000 cases with 32 values each, expected at most 2000000 values in all"},
        Bad{"NoRanks", rows + "    - ranks: [0]\n", "", "6:15", "ranks: found '0'"},
        Bad{"SkipOfAnother", rows, "  skip: [{attention.causal: true}]\n", "4:10", "attention.causal is not swept"},
        Bad{"SkipOfNoCase", rows, "  skip: [{input.generate.sequence: 9}]\n", "4:10",
            "bench.skip: input.generate.sequence never has the value 9; expected one of 8, 16"},
        Bad{"SkipsAll", rows, "  skip: [{input.generate.sequence: 8}, {input.generate.sequence: 16}]\n", "4:3",
            "bench.skip leaves no case"},
        Bad{"NoRepeats", rows, "  repeats: 0\n", "4:12", "bench.repeats: found '0', expected"},
        Bad{"BadValue", "    - input.generate.sequence: [8, none]\n", "", "5:36",
            "input.generate.sequence: found 'none'"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BadCase, IsNamed) {
  const BenchFile file = bench("    - input.generate.sequence: [8, 16]\n      input.generate.kv_heads: [2, 3]\n");
  file.run_file(file.cases[0]);
  try {
    file.run_file(file.cases[1]);
    ADD_FAILURE() << "3 K/V heads do not divide 4 heads";
  } catch (const core::Error& error) {
    EXPECT_EQ(std::string(error.what()).find("bench: case 1 (input.generate.sequence=16, input.generate.kv_heads=3): "),
              0u)
        << error.what();
  }
}

TEST(BadBench, SectionAndOutputsAreChecked) {
  const auto says = [](const std::string& text, const char* word) {
    try {
      bench_file_of(parse_run_file_tree(text, "/data/run.yaml", {}));
      ADD_FAILURE() << "accepted: " << text;
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  says(shared, "bench needs a section bench");
  says("bench: {file: s.h5}\n", "bench.sweep is missing");
  says("bench: {sweep: [{attention.causal: [true]}]}\n", "bench.file is missing");
  says("bench: {file: run.yaml, sweep: [{attention.causal: [true]}]}\n", "bench.file is this run file");
  says("bench: {file: s.h5, json: s.h5, sweep: [{attention.causal: [true]}]}\n",
       "bench.json is the file of bench.file");
  says("input: {file: s.h5}\nbench: {file: s.h5, sweep: [{attention.causal: [true]}]}\n",
       "bench.file is the file of input.file");
  says("bench: {file: none, sweep: [{attention.causal: [true]}]}\n", "bench.file: found 'none', expected a path");
  says("bench: {files: s.h5, sweep: [{attention.causal: [true]}]}\n", "unknown key 'files'");
}

TEST(Identity, TellsWhatDiffers) {
  const std::string sweep = "    - input.generate.sequence: [8, 16]\n";
  const std::string made = bench(sweep).identity();
  EXPECT_EQ(identity_differences(made, bench(sweep).identity()), std::vector<std::string>());
  // bench.json and distribution.stall_timeout may differ between launches of the same sweep.
  EXPECT_EQ(made, bench(sweep, "  json: s.json\n", shared + "distribution: {stall_timeout: 5}\n").identity());
  const auto of = [&](const BenchFile& other) {
    return fmt::format("{}", fmt::join(identity_differences(made, other.identity()), "; "));
  };
  EXPECT_EQ(of(bench(sweep, "  repeats: 7\n")), "bench.repeats: 5 -> 7");
  EXPECT_EQ(of(bench(sweep, "", shared + "attention: {causal: false}\n")), "attention.causal: true -> false");
  EXPECT_EQ(of(bench("    - input.generate.sequence: [8]\n")),
            "bench.sweep: [{input.generate.sequence: [8, 16]}] -> [{input.generate.sequence: [8]}]");
}

}  // namespace
}  // namespace annulus::runfile
