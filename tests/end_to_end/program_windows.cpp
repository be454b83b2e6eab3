// Pairs that are windows through the program: run and verify, gradients, statistics, passes, stream, plan, refusals.
#include <algorithm>
#include <regex>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

class Windows : public ProgramTest {
 protected:
  void write_run(const std::string& attention, const std::string& more = "") {
    write("run.yaml",
          fmt::format("input: {{generate: {{sequence: 203, heads: 4, kv_heads: 2, head_dim: 8, dtype: "
                      "float64}}}}\nattention: {{{}}}\noutput: {{file: out.h5, overwrite: true, statistics: "
                      "[entropy, received, top]}}\n{}",
                      attention, more));
  }
};

const std::string first = "segments: [{window: 24, first: 3}, {window: [5, 4]}], dilations: [1, 6]";

TEST_F(Windows, RunAndVerifyEveryTensor) {
  write_run(first, "compute: {backward: true}\n");
  for (const char* more : {"distribution.strategy=ring", "attention.causal=false --set distribution.strategy=rotation",
                           "attention.causal=false --set distribution.strategy=ulysses",
                           "compute.reproducible=true --set distribution.strategy=ring"}) {
    SCOPED_TRACE(more);
    const Outcome ran = annulus(3, fmt::format("run run.yaml --set {}", more));
    ASSERT_EQ(ran.status, 0) << ran.err;
    const Outcome verified = annulus(2, fmt::format("verify run.yaml --rows 203 --set {}", more));
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    for (const char* name : {"out", "lse", "entropy", "received", "top_rows", "dq", "dk", "dv"})
      EXPECT_EQ(word_on(verified.out, name), "ok") << verified.out;
  }
  EXPECT_NE(annulus(1, "verify run.yaml --rows 203 --set 'attention.segments=[{window: 25}, {window: [5, 4]}]'").status,
            0)
      << "another window";
}

TEST_F(Windows, TheWorkedExample) {
  // Causal, window [2, 0], r = 3: row 10 sees rows 10, 7 and 4.
  write("run.yaml",
        "input: {generate: {sequence: 12, heads: 1, head_dim: 2, dtype: float64}}\n"
        "attention: {segments: [{window: [2, 0]}], dilations: [3]}\n"
        "output: {file: out.h5, statistics: [top], top_keys: 12}\n");
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  std::vector<double> rows = numbers(folder / "out.h5", "top_rows");
  rows = {rows.begin() + 10 * 12, rows.begin() + 11 * 12};
  std::sort(rows.begin(), rows.end(), std::greater<>());
  rows.resize(4);
  EXPECT_EQ(rows, (std::vector<double>{10, 7, 4, -1}));
}

TEST_F(Windows, TheRunFileIsKeptAsItWasUnderstood) {
  write_run(first);
  const Outcome dry = annulus(1, "run --dry-run run.yaml");
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("segments: [{window: [23, 0], first: 3}, {window: [5, 0]}]"), std::string::npos) << dry.out;
  const Outcome ran = annulus(1, "run run.yaml");
  ASSERT_EQ(ran.status, 0);
  EXPECT_NE(ran.out.find("longnet, causal, 2 pairs ({window: [23, 0], first: 3}, 1) ({window: [5, 0]}, 6)"),
            std::string::npos)
      << ran.out;
  const std::string kept = shell("h5dump -d /run/settings out.h5").out;
  EXPECT_NE(kept.find("segments: [{window: [23, 0], first: 3}, {window: [5, 0]}]"), std::string::npos) << kept;
}

TEST_F(Windows, StreamAndPassesGiveTheSameNumbers) {
  const auto write_kind = [&](const std::string& more) {
    write("run.yaml", "input: {file: in.h5}\nattention: {" + first +
                          ", causal: false}\ncompute: {backward: true}\n"
                          "output: {file: out.h5, overwrite: true}\n" +
                          more);
  };
  ASSERT_EQ(
      annulus(1, "generate --output in.h5 --sequence 160 --heads 4 --kv-heads 2 --head-dim 8 --dtype float64 --dout")
          .status,
      0);
  write_kind("");
  ASSERT_EQ(annulus(1, "run run.yaml").status, 0);
  std::vector<std::vector<double>> whole;
  const std::vector<const char*> names{"out", "lse", "dq", "dk", "dv"};
  for (const char* name : names) whole.push_back(numbers(folder / "out.h5", name));
  for (const char* more : {"distribution: {strategy: stream, block_size: 32}\n",
                           "distribution: {strategy: stream, block_size: 7}\n", "distribution: {strategy: ring}\n"}) {
    SCOPED_TRACE(more);
    write_kind(more);
    const Outcome ran = annulus(2, "run run.yaml");
    ASSERT_EQ(ran.status, 0) << ran.err;
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_LT(largest_difference(numbers(folder / "out.h5", names[i]), whole[i]), 1e-11) << names[i];
    EXPECT_EQ(annulus(1, "verify run.yaml --rows 160").status, 0);
  }
}

TEST_F(Windows, APlanKnowsHowFarRowsTravel) {
  write("run.yaml",
        "input: {generate: {sequence: 1048576, heads: 1, head_dim: 64}}\n"
        "attention: {segments: [{window: 4096}], dilations: [1]}\noutput: {file: none}\n");
  const Outcome planned = annulus(1, "plan run.yaml --ranks 64");
  ASSERT_EQ(planned.status, 0) << planned.err;
  // 4,095 rows of K and V of 64 float32: 2.0 MiB.
  for (const char* row : {"ring +contiguous .* 2\\.0 +1 ", "rotation +contiguous .* 2\\.0 +1 "})
    EXPECT_TRUE(std::regex_search(planned.out, std::regex(row))) << row << "\n" << planned.out;
}

TEST_F(Windows, WhatCannotBeIsRefused) {
  const auto refused = [&](const std::string& attention) {
    write("bad.yaml", "input: {file: a.h5}\nattention: {" + attention + "}\noutput: {file: out.h5}\n");
    const Outcome ran = annulus(1, "run bad.yaml");
    EXPECT_EQ(ran.status, 2) << attention;
    return ran.err;
  };
  EXPECT_NE(refused("segments: [{window: 4, first: 2}], dilations: [3]").find("first needs dilation 1, which is 3"),
            std::string::npos);
  EXPECT_NE(refused("segments: [{window: 4}], dilations: [1], semantics: torchscale").find("torchscale has no windows"),
            std::string::npos);
  EXPECT_NE(refused("segments: [{window: 0}], dilations: [1]").find("attention.segments: window: found '0'"),
            std::string::npos);
}

}  // namespace
}  // namespace annulus::test
