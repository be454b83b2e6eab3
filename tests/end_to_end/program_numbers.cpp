// Numbers at the limits of the types in which annulus computes: refused, or found in the results, never silently wrong.
// And what a run says of rows without a key, of segments longer than the sequence, and of machines that differ.
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

class Numbers : public ProgramTest {
 protected:
  void generate(const std::string& more = "") const {
    const Outcome made =
        annulus(0, "generate --output in.h5 --overwrite --sequence 40 --heads 2 --head-dim 8 --dout " + more);
    ASSERT_EQ(made.status, 0) << made.err;
  }
  std::string deck(const std::string& attention, const std::string& compute = "{}") const {
    return "run " + write("run.yaml", fmt::format("input: {{file: in.h5}}\nattention: {}\ncompute: {}\n"
                                                  "output: {{file: out.h5, report: out.json, overwrite: true}}\n",
                                                  attention, compute));
  }
  /// On 1 and on 3 ranks: this status, one message with all these words, no result, nothing temporary.
  void expect_refused(const std::string& arguments, int status, const std::vector<std::string>& words) const {
    for (const int ranks : {0, 3}) {
      const Outcome ran = annulus(ranks, arguments);
      SCOPED_TRACE(fmt::format("{} ranks: {}\n{}", ranks, ran.out, ran.err));
      EXPECT_EQ(ran.status, status);
      EXPECT_EQ(count(ran.err, "annulus: error:"), 1);
      for (const std::string& word : words) EXPECT_NE(ran.err.find(word), std::string::npos) << word;
      EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "run.yaml"}));
    }
  }
};

TEST_F(Numbers, AScaleThatIsNoNumberOfThePrecisionIsRefused) {
  generate();
  expect_refused(deck("{segments: [all], dilations: [1], scale: 1e39}"), 2,
                 {"run.yaml:2:", "attention.scale: 1e+39", "float32"});
  expect_refused(deck("{segments: [all], dilations: [1], scale: 1e-39}"), 2, {"run.yaml:2:", "attention.scale: 1e-39"});
  expect_refused(deck("{segments: [all], dilations: [1], scale: 1e39}", "{precision: float64}"), 1,
                 {"the result's lse holds inf at [0, ", "stored as float32"});
}

TEST_F(Numbers, ProductsOfBfloat16AreMadeOfBfloat16) {
  for (const char* type : {"float32", "float16", "float64"}) {
    generate(std::string("--dtype ") + type);
    expect_refused(deck("{segments: [all], dilations: [1]}", "{precision: bfloat16}"), 2,
                   {"run.yaml:3:", "compute.precision: products of bfloat16", std::string("these are ") + type,
                    "expected auto, float32 or float64"});
  }
  generate("--dtype bfloat16");
  const std::string run =
      deck("{segments: [8, all], dilations: [1, 2]}", "{precision: bfloat16, reproducible: true, backward: true}");
  if (annulus(0, "info").out.find("host, ") == std::string::npos)
    return expect_refused(run, 2, {"run.yaml:3:", "compute.precision: back end device has no products of bfloat16"});
  const std::string statistics = " --set output.statistics=[entropy,received,top]";
  EXPECT_EQ(count(annulus(0, run + " --dry-run").out, "bfloat16 (axes bshd), products of bfloat16\n"), 1);
  const std::vector<std::string> datasets{"out", "lse", "dq", "dk", "dv", "entropy", "received", "top_weights"};
  std::vector<std::vector<double>> alone;
  for (const int ranks : {1, 2, 3}) {
    const Outcome ran = annulus(ranks, run + statistics + " --set distribution.strategy=ring");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(count(ran.out, ", products of bfloat16\n"), 1) << ran.out;
    const Outcome checked = annulus(ranks, "verify" + run.substr(3) + statistics + " --set distribution.strategy=ring");
    EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      const std::vector<double> found = numbers(folder / "out.h5", datasets[i]);
      if (ranks == 1) alone.push_back(found);
      EXPECT_EQ(found, alone[i]) << datasets[i] << ", " << ranks << " ranks";
    }
  }
}

TEST_F(Numbers, ProductsOfSumsOfBfloat16AreMadeOfFloat32OrFloat16) {
  const std::string all = "{segments: [all], dilations: [1]}", expected = "expected auto, float32 or float64";
  const auto expect_wrong_tensors = [&](const std::string& name, const std::string& type, const std::string& tensors) {
    generate("--dtype " + type);
    expect_refused(deck(all, "{precision: " + name + "}"), 2,
                   {"run.yaml:3:", "compute.precision: products of " + name + " are made of tensors of " + tensors,
                    " only, and these are " + type, expected});
  };
  for (const char* type : {"float64", "bfloat16"}) expect_wrong_tensors("3xbfloat16", type, "float32 or float16");
  for (const char* type : {"float64", "bfloat16", "float16"}) expect_wrong_tensors("6xbfloat16", type, "float32");
  generate();
  for (const std::string name : {"3xbfloat16", "6xbfloat16"}) {
    expect_refused(deck(all, "{precision: " + name + ", backend: device}"), 2,
                   {"run.yaml:3:", "compute.precision: back end device has no products of " + name + " yet", expected});
  }
}

class SplitNumbers : public Numbers {
 protected:
  /// Whether a host computes; builds for GPUs have none.
  bool has_host() const { return annulus(0, "info").out.find("host, ") != std::string::npos; }
};

TEST_F(SplitNumbers, ResultsAreVerifiedByTheirOwnTolerances) {
  if (!has_host()) return;
  for (const auto& [name, type] :
       {std::pair("3xbfloat16", "float32"), std::pair("6xbfloat16", "float32"), std::pair("3xbfloat16", "float16")}) {
    SCOPED_TRACE(fmt::format("{} of {}", name, type));
    generate(std::string("--dtype ") + type);
    const std::string words =
        deck("{segments: [8, all], dilations: [1, 2]}", fmt::format("{{precision: {}, backward: true}}", name))
            .substr(3) +
        " --set distribution.strategy=ring";
    for (const int ranks : {1, 2}) {
      const Outcome ran = annulus(ranks, "run" + words);
      ASSERT_EQ(ran.status, 0) << ran.err;
      EXPECT_EQ(count(ran.out, std::string(", products of ") + name), 1) << ran.out;
      const Outcome checked = annulus(ranks, "verify" + words);
      EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
      EXPECT_EQ(count(checked.out, " ok"), 5) << checked.out;
    }
    const auto verified_with_error = [&](double error) {
      spoil(folder / "out.h5", "out", 0, error);
      return annulus(0, "verify" + words).status;
    };
    const bool is_half = type == std::string("float16");
    EXPECT_EQ(verified_with_error(5e-5), name == std::string("6xbfloat16") ? 3 : 0);
    EXPECT_EQ(verified_with_error(1e-3), is_half ? 0 : 3);
    EXPECT_EQ(verified_with_error(2e-2), 3);
  }
}

TEST_F(SplitNumbers, HaveStatisticsAndTheSameBitsOnAnyNumberOfRanks) {
  if (!has_host()) return;
  generate();
  const std::vector<std::string> datasets{"out", "lse", "dq", "dk", "dv", "entropy", "received", "top_weights"};
  for (const std::string name : {"3xbfloat16", "6xbfloat16"}) {
    SCOPED_TRACE(name);
    const std::string words =
        deck("{segments: [8, all], dilations: [1, 2]}", "{precision: " + name + ", reproducible: true, backward: true}")
            .substr(3) +
        " --set distribution.strategy=ring --set output.statistics=[entropy,received,top]";
    std::vector<std::vector<double>> alone;
    for (const int ranks : {1, 2, 3}) {
      const Outcome ran = annulus(ranks, "run" + words);
      ASSERT_EQ(ran.status, 0) << ran.err;
      EXPECT_EQ(count(ran.out, "without matrix units: statistics are asked for"), 1) << ran.out;
      EXPECT_EQ(annulus(ranks, "verify" + words).status, 0);
      for (std::size_t i = 0; i < datasets.size(); ++i) {
        const std::vector<double> found = numbers(folder / "out.h5", datasets[i]);
        if (ranks == 1) alone.push_back(found);
        EXPECT_EQ(found, alone[i]) << datasets[i] << ", " << ranks << " ranks";
      }
    }
    const std::string dense =
        deck("{segments: [all], dilations: [1]}", "{precision: " + name + ", reproducible: true}");
    EXPECT_EQ(count(annulus(0, dense + " --dry-run").out, "32 keys at a time by "), 1) << "whatever the processor has";
  }
}

TEST_F(Numbers, ProductsOfTf32AreMadeOfFloat32OnMatrixUnits) {
  for (const char* name : {"tf32", "3xtf32"}) {
    const std::string compute = std::string("{precision: ") + name;
    const std::string attention = "{segments: [all], dilations: [1]}";
    generate("--dtype bfloat16");
    expect_refused(
        deck(attention, compute + "}"), 2,
        {"run.yaml:3:", std::string("compute.precision: products of ") + name + " are made of tensors of float32",
         "these are bfloat16", "expected auto, float32 or float64"});
    generate();
    const std::string run = deck(attention, compute + "}");
    if (annulus(0, "info").out.find("host, ") == std::string::npos) continue;  // this depends on the GPU
    for (const char* more : {"", " --dry-run", " --set compute.reproducible=true"}) {
      expect_refused(run + more, 2,
                     {"run.yaml:3:", std::string("compute.precision: products of ") + name + " are made by the matrix",
                      "this build computes on the host", "expected auto, float32 or float64"});
    }
    const Outcome planned = annulus(0, "plan" + run.substr(3));
    EXPECT_EQ(planned.status, 2);
    EXPECT_NE(planned.err.find("this build computes on the host"), std::string::npos) << planned.err;
  }
}

// `device` runs on host threads, too, and gives the same numbers. Before the input is opened, a run refuses a back end
// that the build lacks, and cuDNN with settings that it cannot fulfil.
TEST_F(Numbers, BackEndsAreNamed) {
  generate();
  const std::string attention = "{segments: [8, all], dilations: [1, 2]}";
  expect_refused(deck(attention, "{backend: cudnn, reproducible: true}"), 2,
                 {"run.yaml:3:",
                  "compute.reproducible: true with compute.backend cudnn: cuDNN adds in an order of its "
                  "own; expected false, or another back end"});
  const bool on_host = annulus(0, "info").out.find("host, ") != std::string::npos;  // a build for GPUs may have cuDNN
  for (const char* more : {"", " --dry-run"}) {
    if (!on_host) break;
    expect_refused(
        deck(attention, "{backend: cudnn}") + more, 2,
        {"run.yaml:3:", "compute.backend: cudnn: this build was made without cuDNN", "expected auto or host"});
  }
  const std::string run = deck(attention, "{backend: device}");
  const Outcome ran = annulus(2, run);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("device tiles"), std::string::npos) << ran.out;
  EXPECT_EQ(annulus(0, "verify" + run.substr(3)).status, 0);
  deck(attention, "{backend: cudnn}");  // the result of a GPU is verified anywhere
  const Outcome checked = annulus(0, "verify" + run.substr(3));
  EXPECT_EQ(checked.status, 0) << checked.err;
}

/// A result of a GPU can be verified without a GPU. A result in float32 passes as tf32 and as 3xtf32. One that is wrong
/// by the rounding of TF32 passes as tf32, but not as 3xtf32.
TEST_F(Numbers, ResultsOfTf32AreVerifiedWithoutAGpu) {
  generate();
  const std::string words = deck("{segments: [all], dilations: [1]}").substr(3);
  ASSERT_EQ(annulus(0, "run" + words).status, 0);
  const auto verified = [&](const std::string& precision) {
    const std::string made = "input: {file: in.h5}\noutput: {file: out.h5}\ncompute: {precision: " + precision + "}\n";
    replace_by_text(folder / "out.h5", "/run/settings", made.c_str());
    return annulus(0, "verify" + words + " --set compute.precision=" + precision).status;
  };
  EXPECT_EQ(verified("tf32"), 0);
  EXPECT_EQ(verified("3xtf32"), 0);
  spoil(folder / "out.h5", "out", 0, 1e-3);
  EXPECT_EQ(verified("tf32"), 0);
  EXPECT_EQ(verified("3xtf32"), 3);
}

/// compute.precision: auto takes products of bfloat16 if the instruction set has an instruction for them.
TEST_F(Numbers, AutoTakesProductsOfBfloat16WhereThereIsAnInstruction) {
  generate("--dtype bfloat16");
  const std::string words = " " + deck("{segments: [all], dilations: [1]}") + " --dry-run";
  for (const char* set : {"baseline", "avx2", "avx512", "avx512_bf16", "amx"}) {
    const std::string program = std::string("env ANNULUS_INSTRUCTION_SET=") + set + " " + ANNULUS_PROGRAM;
    const std::string info = shell(program + " info").out;
    const bool has = info.find("host, avx512_bf16 instructions") != std::string::npos ||
                     info.find("host, amx instructions") != std::string::npos;
    EXPECT_EQ(count(shell(program + words).out, "products of bfloat16"), has ? 1 : 0) << set;
  }
}

/// compute.precision: auto takes products of 3xbfloat16 for tensors of float16, and for no others, if there is AMX.
TEST_F(Numbers, AutoTakesThreeProductsOfBfloat16WhereThereAreMatrixUnits) {
  for (const std::string type : {"float16", "float32"}) {
    generate("--dtype " + type);
    const std::string words = " " + deck("{segments: [all], dilations: [1]}") + " --dry-run";
    for (const char* set : {"baseline", "avx512", "amx"}) {
      const std::string program = std::string("env ANNULUS_INSTRUCTION_SET=") + set + " " + ANNULUS_PROGRAM;
      const bool has = shell(program + " info").out.find("host, amx instructions\n") != std::string::npos;
      EXPECT_EQ(count(shell(program + words).out, "products of 3xbfloat16"), has && type == "float16" ? 1 : 0) << set;
      EXPECT_EQ(count(shell(program + words + " --set output.statistics=[top]").out, "products of "), 0) << set;
    }
  }
}

TEST_F(Numbers, ScoresThatMayOverflowAreRefused) {
  generate();
  spoil(folder / "in.h5", "q", 8 * 2 * 33, 1e30);
  spoil(folder / "in.h5", "k", 8 * 2 * 7, -1e12);
  const std::string attention = "{segments: [all], dilations: [1], causal: false}";
  expect_refused(deck(attention), 1, {"overflow float32", "|q| up to 1e+30", "|k| up to 1e+12", "float64"});
  EXPECT_EQ(annulus(2, deck(attention, "{precision: float64}")).status, 0);
}

TEST_F(Numbers, GradientsOfScoresThatAreAllRoundingAreRefused) {
  generate();
  const std::string attention = "{segments: [all], dilations: [1], scale: 1e30}";
  expect_refused(deck(attention, "{backward: true}"), 1, {"compute.backward", "|lse| reaches", "1e+30"});
  const Outcome forward = annulus(2, deck(attention));
  EXPECT_EQ(forward.status, 0) << forward.err;
  EXPECT_NE(forward.out.find("\n  scores     |lse| reaches"), std::string::npos) << forward.out;
  const Outcome usual = annulus(2, deck("{segments: [all], dilations: [1], scale: 1e3}", "{backward: true}"));
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_EQ(count(usual.out, "|lse|"), 0) << usual.out;
}

TEST_F(Numbers, TheFirstNumberThatIsNoneIsNamed) {
  generate();
  spoil(folder / "in.h5", "v", (30 * 2 + 1) * 8 + 2, 1e30);  // row 30, head 1: rows from there on see it
  const std::string attention = "{segments: [all], dilations: [1], causal: true}";
  expect_refused(deck(attention, "{reproducible: true}"), 1,
                 {"the result's out holds", " at [0, 30, 1, 2]", "compute.reproducible", "2^42"});
  const Outcome three = annulus(3, deck(attention, "{reproducible: true}") + " --set distribution.strategy=ring");
  EXPECT_NE(three.err.find("on rank 2"), std::string::npos) << three.err;
  EXPECT_EQ(annulus(3, deck(attention)).status, 0) << "sums that are not exact have room";
}

TEST_F(Numbers, GradientsBeyondTheirTypeAreNamed) {
  generate("--dtype float16");
  for (std::size_t row = 0; row < 4; ++row) spoil(folder / "in.h5", "dout", 2 * 8 * row + 5, 6e4);
  expect_refused(deck("{segments: [all], dilations: [1], scale: 0.01}", "{backward: true}"), 1,
                 {"the result's dv holds inf at [0, 0, 0, 5]", "float16", "65504"});  // 6e4 (1 + 1/2 + 1/3 + 1/4)
  const Outcome stream = annulus(3, deck("{segments: [all], dilations: [1], scale: 0.01}", "{backward: true}") +
                                        " --set distribution.strategy=stream");
  EXPECT_NE(stream.err.find("the result's dv holds inf in row 0, head 0, though all inputs"), std::string::npos)
      << stream.err;
}

TEST_F(Numbers, ALayersResultsAreLookedAt) {
  const Outcome made =
      annulus(0, "generate --output in.h5 --layer 16 --sequence 40 --heads 2 --head-dim 8 --dtype float16 --seed 3");
  ASSERT_EQ(made.status, 0) << made.err;
  for (std::size_t i = 0; i < 16; ++i) spoil(folder / "in.h5", "x", 16 * 5 + i, 6e4);
  write("run.yaml",
        "input: {file: in.h5}\nattention: {segments: [all], dilations: [1]}\nlayer: {heads: 2}\n"
        "output: {file: out.h5}\n");
  expect_refused("run run.yaml", 1, {"the result's y holds", " at [0, ", "float16"});
  for (std::size_t i = 0; i < 16; ++i) spoil(folder / "in.h5", "x", 16 * 5 + i, -6e4);
  for (std::size_t row = 0; row < 40; ++row) spoil(folder / "in.h5", "dy", 16 * row + 5, 6e3);
  for (const std::string file : {"out.h5", "none"}) {  // the sum of 40 rows is too large for float16
    expect_refused("run run.yaml --set compute.backward=true --set output.file=" + file, 1, {"the result's dwo holds"});
  }
}

/// Cases that differ in their scale share q, k and v in memory; each case checks its own scores.
TEST_F(Numbers, BenchChecksTheScoresOfEveryCase) {
  write("deck.yaml", R"(
input: {generate: {sequence: 40, heads: 2, head_dim: 8}}
bench: {sweep: [{attention.scale: [1, 1.0e+37]}], repeats: 1, file: sweep.h5}
)");
  const Outcome ran = annulus(2, "bench deck.yaml");
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_NE(ran.err.find("case 1 (attention.scale=1.0e+37): scores may overflow"), std::string::npos) << ran.err;
  const Outcome rounding = annulus(2,
                                   "bench deck.yaml --set compute.backward=true --set bench.file=b.h5 --set "
                                   "\"bench.sweep=[{attention.scale: [1.0e+30]}]\"");
  EXPECT_NE(rounding.err.find("gradients would be rounding errors"), std::string::npos) << rounding.err;
}

TEST_F(Numbers, RowsWithoutAKeyAreCounted) {
  generate();
  const Outcome some = annulus(3, deck("{segments: [8], dilations: [4]}"));  // each head sees every fourth row
  ASSERT_EQ(some.status, 0) << some.err;
  EXPECT_NE(some.out.find("\n  keys       60 of 80 query rows (per head) see no key: out = 0, lse = -inf\n"),
            std::string::npos)
      << some.out;
  const auto report = nlohmann::json::parse(slurp(folder / "out.json"));
  EXPECT_EQ(report.at("query_rows"), 80);
  EXPECT_EQ(report.at("query_rows_without_key"), 60);
  const Outcome none = annulus(1, deck("{segments: [8], dilations: [1]}"));
  EXPECT_EQ(none.out.find("see no key"), std::string::npos) << none.out;
  EXPECT_EQ(nlohmann::json::parse(slurp(folder / "out.json")).at("query_rows_without_key"), 0);
}

TEST_F(Numbers, ASegmentLongerThanEverythingIsNoted) {
  generate();
  const std::string run = deck("{segments: [8, 64, 40], dilations: [1, 2, 4]}");
  const std::string note = "segment 64 is longer than the 40 rows: the same as all";
  for (const char* more : {"", " --dry-run"}) {
    const Outcome ran = annulus(2, run + more);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(count(ran.out, note), 1) << ran.out;
    EXPECT_EQ(count(ran.out, "is longer than"), 1) << ran.out;
  }
}

TEST_F(Numbers, EveryVerbThatSpeaksOfTilesObeysTheVariable) {
  generate();
  const std::string run = deck("{segments: [8, all], dilations: [1, 2]}", "{reproducible: true}");
  const std::string file = run.substr(run.find(' ') + 1);
  for (const std::string& words : {std::string("info"), run, run + " --dry-run", "plan " + file}) {
    const Outcome wrong = shell("env ANNULUS_INSTRUCTION_SET=sse9 " + std::string(ANNULUS_PROGRAM) + " " + words);
    EXPECT_EQ(wrong.status, 2) << words;
    EXPECT_EQ(
        count(wrong.err, "ANNULUS_INSTRUCTION_SET is 'sse9', expected baseline, avx2, avx512, avx512_bf16 or amx"), 1)
        << wrong.err;
  }
  const Outcome info = shell("env ANNULUS_INSTRUCTION_SET=baseline " + std::string(ANNULUS_PROGRAM) + " info");
  EXPECT_EQ(count(info.out, "host, baseline instructions\n"), 1) << info.out;
}

TEST_F(Numbers, RanksOnDifferentMachinesUseWhatAllOfThemHave) {
  generate();
  const std::string run = deck("{segments: [8, all], dilations: [1, 2]}", "{reproducible: true, backward: true}");
  const std::string set = "ANNULUS_INSTRUCTION_SET=", lesser = "env " + set + "baseline ";
  const Outcome alone = shell(lesser + ANNULUS_PROGRAM + " " + run);
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_NE(alone.out.find("baseline tiles\n"), std::string::npos) << alone.out;
  const std::vector<std::string> datasets{"out", "lse", "dq", "dk", "dv"};
  std::vector<std::vector<double>> expected;
  for (const std::string& dataset : datasets) expected.push_back(numbers(folder / "out.h5", dataset));

  const Outcome best = annulus(1, run);
  ASSERT_EQ(best.status, 0) << best.err;
  const bool has_better = best.out.find("baseline tiles") == std::string::npos;
  // Ranks 1 and 2 use the baseline. (A launch of several programs, "A : B", crashes mpiexec of Open MPI 5.0.7.)
  write("by_rank.sh", "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || export " + set + "baseline\nexec \"$@\"\n");
  const Outcome mixed = shell(fmt::format(ANNULUS_LAUNCH, 3) + " sh by_rank.sh " + ANNULUS_PROGRAM + " " + run +
                              " --set distribution.strategy=ring");
  ASSERT_EQ(mixed.status, 0) << mixed.err;
  EXPECT_EQ(count(mixed.out, "baseline tiles (rank 1 has no a"), has_better ? 1 : 0) << mixed.out;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    EXPECT_EQ(numbers(folder / "out.h5", datasets[i]), expected[i]) << datasets[i];
  }
  const Outcome wrong = shell("env " + set + "sse9 " + ANNULUS_PROGRAM + " " + run);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("ANNULUS_INSTRUCTION_SET is \'sse9\', expected baseline, avx2, avx512, avx512_bf16 or amx"),
            std::string::npos)
      << wrong.err;
}

}  // namespace
}  // namespace annulus::test
