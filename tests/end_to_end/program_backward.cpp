// Runs with gradients: dq, dk and dv of every strategy and rank count are those of the definition. verify accepts them,
// and finds wrong ones.
#include <nlohmann/json.hpp>

#include "annulus/core/tolerance.hpp"
#include "program.hpp"
#include "results.hpp"
#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {file: in.h5, dlse: /dlse}
attention: {segments: [16, all], dilations: [1, 3]}
compute: {backward: true}
distribution: {strategy: ring}
output: {file: result.h5, overwrite: true}
)";

class Backward : public ProgramTest {
 protected:
  /// Makes in.h5, and returns a case with the same numbers.
  AttentionCase generate(DType type, const std::string& more = "") const {
    const Outcome made =
        annulus(2, fmt::format("generate --output in.h5 --overwrite --sequence 77 --heads 4 --kv-heads 2 "
                               "--head-dim 20 --batch 2 --dout --dlse --dtype {} {}",
                               core::name_of(type), more));
    EXPECT_EQ(made.status, 0) << made.err;
    AttentionCase problem{{2, 77, 4, 2, 20}, {}, type};
    problem.pattern.pairs = {{16, 1}, {kernels::whole_document, 3}};
    problem.pattern.causal = true;
    problem.pattern.scale = 1 / std::sqrt(20.0);
    return problem;
  }
  void expect_gradients(const kernels::ReferenceGradients& expected, double tolerance) const {
    const auto file = folder / "result.h5";
    EXPECT_TRUE(close_to(numbers(file, "/dq"), expected.dq, tolerance)) << "dq";
    EXPECT_TRUE(close_to(numbers(file, "/dk"), expected.dk, tolerance)) << "dk";
    EXPECT_TRUE(close_to(numbers(file, "/dv"), expected.dv, tolerance)) << "dv";
  }
};

TEST_F(Backward, EveryStrategyAndRankCountGivesTheGradientsOfTheDefinition) {
  const AttentionCase problem = generate(DType::float64);
  const auto forward = problem.reference();
  const auto with_dlse = problem.reference_gradients(true), without = problem.reference_gradients(false);
  write("run.yaml", deck);
  for (const std::string& strategy : strategies()) {
    for (const int ranks : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} on {}", strategy, ranks));
      const std::string run = fmt::format("run run.yaml --set distribution.strategy={}", strategy);
      const Outcome ran = annulus(ranks, run);
      ASSERT_EQ(ran.status, 0) << ran.err;
      expect_gradients(with_dlse, core::gradient_tolerance(DType::float64));
      EXPECT_TRUE(close_to(numbers(folder / "result.h5", "/out"), forward.out, 1e-12));
      EXPECT_TRUE(close_to(numbers(folder / "result.h5", "/lse"), forward.lse, 1e-12));
    }
  }
  ASSERT_EQ(annulus(3, "run run.yaml --set input.dlse=none").status, 0);
  expect_gradients(without, core::gradient_tolerance(DType::float64));
  EXPECT_GT(test::error_of(numbers(folder / "result.h5", "/dq"), with_dlse.dq), 1e-3) << "dlse changes the gradients";
}

TEST_F(Backward, EveryStorageTypeVerifies) {
  write("run.yaml", deck);
  for (const DType type : core::all_dtypes) {
    SCOPED_TRACE(core::name_of(type));
    const AttentionCase problem = generate(type);
    const Outcome ran = annulus(3, "run run.yaml --set input.dlse=none");
    ASSERT_EQ(ran.status, 0) << ran.err;
    expect_gradients(problem.reference_gradients(false), core::gradient_tolerance(type));
    const Outcome verified = annulus(2, "verify run.yaml --set input.dlse=none");
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_EQ(count(verified.out, " ok"), 5) << verified.out;
  }
}

TEST_F(Backward, EverySemanticsVerifies) {
  generate(DType::float64);
  write("run.yaml", deck);
  for (const char* attention : {"{semantics: grouped, group_scale: true, segments: [16, all], dilations: [2, 3]}",
                                "{semantics: paper, causal: false, segments: [8, 32], dilations: [1, 4], scale: 0.3}",
                                "{semantics: torchscale, causal: false, segments: [16, all], dilations: [1, 4]}"}) {
    const std::string set = fmt::format("run.yaml --set \"attention={}\"", attention);
    const Outcome ran = annulus(3, "run " + set);
    ASSERT_EQ(ran.status, 0) << ran.err;
    const Outcome verified = annulus(2, "verify --rows 77 " + set);
    EXPECT_EQ(verified.status, 0) << attention << verified.out << verified.err;
    EXPECT_EQ(count(verified.out, " ok"), 5) << verified.out;
  }
}

TEST_F(Backward, VerifyFindsAWrongGradient) {
  generate(DType::float32);
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  ASSERT_EQ(annulus(2, "verify run.yaml --rows 77").status, 0);
  const auto path = folder / "result.h5";
  struct Case {
    std::vector<std::string> spoilt;
    bool at_end;
  };
  for (const auto& [spoilt, at_end] :
       std::vector<Case>{{{"dq", "dk", "dv"}, false}, {{"dq", "dv"}, true}, {{"dk"}, true}}) {
    const auto spoil_all = [&, &names = spoilt, last = at_end](double amount) {
      for (const std::string& name : names) spoil(path, name, last ? numbers(path, name).size() - 1 : 0, amount);
    };
    spoil_all(1e-2);
    const Outcome verified = annulus(2, "verify run.yaml");
    EXPECT_EQ(verified.status, 3) << verified.out;
    EXPECT_EQ(count(verified.out, "WRONG"), int(spoilt.size())) << verified.out;
    for (const std::string& name : spoilt) EXPECT_EQ(word_on(verified.out, name), "WRONG") << name << verified.out;
    spoil_all(-1e-2);
  }
  EXPECT_EQ(annulus(1, "verify run.yaml").status, 0);
}

TEST_F(Backward, KeysThatTooManyQueriesSeeAreHeldAgainstTheResultsOwnLse) {
  write("big.yaml",
        "input: {generate: {sequence: 6000, heads: 4, kv_heads: 2, head_dim: 8, dtype: float64}}\n"
        "compute: {backward: true}\ndistribution: {strategy: ring}\noutput: {file: big.h5}\n");
  ASSERT_EQ(annulus(2, "run big.yaml").status, 0);
  const Outcome verified = annulus(1, "verify big.yaml --rows 8");
  EXPECT_EQ(verified.status, 0) << verified.out;
  EXPECT_NE(verified.out.find("taken from the result"), std::string::npos) << verified.out;
  spoil(folder / "big.h5", "/dv", 5, 1e-6);
  EXPECT_EQ(annulus(2, "verify big.yaml --rows 8").status, 3);
}

TEST_F(Backward, VerifyWantsTheGradientsItIsAskedFor) {
  generate(DType::float32);
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml --set compute.backward=false --set input.dlse=none").status, 0);
  const Outcome verified = annulus(2, "verify run.yaml");
  EXPECT_EQ(verified.status, 1);
  EXPECT_NE(verified.err.find("compute.backward: false -> true"), std::string::npos) << verified.err;
}

TEST_F(Backward, GradientsMadeInsideTheRunFileEqualThoseOfAFile) {
  generate(DType::float64, "--seed 9");
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml --set input.dlse=none").status, 0);
  write("made.yaml",
        "input: {generate: {sequence: 77, heads: 4, kv_heads: 2, head_dim: 20, batch: 2, dtype: float64, seed: 9}}\n"
        "attention: {segments: [16, all], dilations: [1, 3]}\ncompute: {backward: true}\noutput: {file: made.h5}\n");
  const Outcome ran = annulus(3, "run made.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* name : {"/dq", "/dk", "/dv"}) {
    EXPECT_TRUE(close_to(numbers(folder / "made.h5", name), numbers(folder / "result.h5", name), 1e-11)) << name;
  }
  EXPECT_EQ(annulus(2, "verify made.yaml").status, 0);
}

TEST_F(Backward, ResultTellsWhatTheBackwardPassDid) {
  generate(DType::float32);
  write("run.yaml", deck);
  const Outcome ran =
      annulus(3, "run run.yaml --set output.report=report.json --set distribution.partition=contiguous");
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* word : {" s attention, ", " s backward, ", "backward: 0.0 GFLOP", "memory     backward: "}) {
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << " is missing in:\n" << ran.out;
  }
  const auto path = folder / "result.h5";
  EXPECT_EQ(numbers(path, "/run/backward/kept"), numbers(path, "/run/kept"));
  for (const char* name : {"compute_seconds", "kernel_cpu_seconds", "peak_bytes", "predicted_peak_bytes",
                           "attention_seconds", "bytes_sent", "bytes_received"}) {
    const auto values = numbers(path, std::string("/run/backward/") + name);
    ASSERT_EQ(values.size(), 3u) << name;
    for (const double value : values) EXPECT_GT(value, 0) << name;
  }
  double kept = 0, by_hop = 0;
  for (const double value : numbers(path, "/run/backward/kept")) kept += value;
  for (const double value : numbers(path, "/run/backward/hop_kept")) by_hop += value;
  EXPECT_EQ(kept, by_hop);
  const auto report = nlohmann::json::parse(slurp(folder / "report.json"));
  EXPECT_EQ(report["per_rank"]["rows"], (std::vector<double>{26, 26, 25}));
  EXPECT_EQ(report["backward"]["per_rank"]["kept"], report["per_rank"]["kept"]);
  EXPECT_EQ(report["backward"]["per_rank_and_hop"]["hop_kept"].size(),
            3 * report["backward"]["hops"].get<std::size_t>());
  EXPECT_GT(report["backward"]["attention_seconds"], 0);
  const Outcome axes = shell("h5dump -a /dq/axes -a /dk/axes -a /dv/axes result.h5");
  EXPECT_EQ(count(axes.out, "batch sequence head dim"), 1) << axes.out;
  EXPECT_EQ(count(axes.out, "batch sequence kv_head dim"), 2) << axes.out;
}

TEST_F(Backward, DryRunAndPlanPredictBothPasses) {
  generate(DType::float32);
  write("run.yaml", deck);
  const Outcome dry = annulus(0, "run --dry-run --ranks 3 run.yaml");
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_EQ(count(dry.out, "# 3 ranks: at most "), 2) << dry.out;
  EXPECT_EQ(count(dry.out, "# backward\n"), 1) << dry.out;
  EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "run.yaml"}));
  const Outcome planned = annulus(0, "plan run.yaml --ranks 3");
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("time: slowest rank, forward and backward pass"), std::string::npos) << planned.out;
  ASSERT_EQ(count(planned.out, "of these the backward pass"), 1) << planned.out;
  const std::string table = planned.out.substr(planned.out.find("of these the backward pass"));
  for (const std::string& name : able({"single", "allgather", "ring", "rotation", "onesided", "ulysses"})) {
    EXPECT_EQ(count(table, fmt::format("\n  {} ", name)), 1) << name << " in:\n" << table;
  }
  const Outcome many = annulus(0, "plan run.yaml --ranks 65536");
  EXPECT_EQ(count(many.out, "\n  rotation "), 4) << "three partitions, and its backward pass:\n"
                                                 << many.out << many.err;
  const Outcome forward = annulus(0, "plan run.yaml --ranks 3 --set compute.backward=false --set input.dlse=none");
  EXPECT_EQ(count(forward.out, "backward"), 0) << forward.out;
}

TEST_F(Backward, WhatIsWrongWithDoutIsSaidBeforeAnythingIsComputed) {
  generate(DType::float32);
  write("run.yaml", deck);
  struct Case {
    const char* set;
    int status;
    std::vector<std::string> words;
  };
  for (const auto& [set, status, words] : std::vector<Case>{
           {"input.dout=/absent",
            1,
            {"in.h5", "no dataset /absent", "/dout", "input.dout names it", "annulus generate --dout"}},
           {"input.dout=/k", 1, {"dataset /k has shape (2, 77, 2, 20), expected (2, 77, 4, 20) to fit q"}},
           {"input.dout=/dlse", 1, {"dataset /dlse has 3 axes"}},
           {"input.dlse=/dout", 1, {"dataset /dout has 4 axes"}},
           {"compute.backward=false", 2, {"input.dlse needs compute.backward: true"}},
           {"compute.backwards=true", 2, {"unknown key", "did you mean"}}}) {
    for (const int ranks : {0, 3}) {
      const Outcome outcome = annulus(ranks, fmt::format("run run.yaml --set {}", set));
      SCOPED_TRACE(fmt::format("{} on {}: {}", set, ranks, outcome.err));
      EXPECT_EQ(outcome.status, status);
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
    }
  }
  // `generate` stores all tensors of a file in one type, so a dout of another type is copied from another file.
  ASSERT_EQ(annulus(0,
                    "generate --output other.h5 --sequence 77 --heads 4 --kv-heads 2 --head-dim 20 --batch 2 "
                    "--dtype float16 --dout")
                .status,
            0);
  ASSERT_EQ(shell("h5copy -i other.h5 -o in.h5 -s /dout -d /half").status, 0);
  const Outcome typed = annulus(3, "run run.yaml --set input.dout=/half");
  EXPECT_EQ(typed.status, 1);
  EXPECT_NE(typed.err.find("dataset /half is float16, expected float32 as "), std::string::npos) << typed.err;
  EXPECT_FALSE(exists("result.h5"));
}

TEST_F(Backward, NanInDoutIsNamedByItsPlaceAndLeavesNoResult) {
  generate(DType::float32);
  write("run.yaml", deck);
  spoil(folder / "in.h5", "/dout", ((1 * 77 + 7) * 4 + 2) * 20 + 5, std::nan(""));
  for (const int ranks : {0, 3}) {
    const Outcome outcome = annulus(ranks, "run run.yaml");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("dataset /dout holds nan at [1, 7, 2, 5]"), std::string::npos) << outcome.err;
    EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "run.yaml"}));
  }
}

}  // namespace
}  // namespace annulus::test
