// Whole runs, from HDF5 to HDF5 on several ranks: every strategy and rank count gives the same numbers, and
// `annulus verify` accepts them.
#include "program.hpp"
#include "results.hpp"

#include <nlohmann/json.hpp>

#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::test {
namespace {

std::string deck(const std::string& input, const std::string& more = "") {
  return "input: {file: " + input +
         "}\nattention: {segments: [16, all], dilations: [1, 3]}\noutput: {file: result.h5, overwrite: true}\n" + more;
}

class Runs : public ProgramTest {
 protected:
  void generate(const std::string& more = "") {
    const Outcome made =
        annulus(2, "generate --output in.h5 --sequence 77 --heads 4 --kv-heads 2 --head-dim 20 " + more);
    ASSERT_EQ(made.status, 0) << made.err;
  }
};

TEST_F(Runs, EveryStrategyAndRankCountGivesTheSameNumbersAndVerifies) {
  generate("--dtype float64 --batch 2");
  write("run.yaml", deck("in.h5"));
  ASSERT_EQ(annulus(0, "run run.yaml").status, 0);
  const auto out = numbers(folder / "result.h5", "/out"), lse = numbers(folder / "result.h5", "/lse");
  ASSERT_EQ(out.size(), 2u * 77 * 4 * 20);
  ASSERT_EQ(lse.size(), 2u * 77 * 4);
  for (const std::string& strategy : strategies()) {
    for (const int ranks : {1, 2, 3, 4}) {
      const std::string named = fmt::format("run.yaml --set distribution.strategy={}", strategy);
      const Outcome ran = annulus(ranks, "run " + named);
      ASSERT_EQ(ran.status, 0) << strategy << " on " << ranks << ": " << ran.err;
      EXPECT_LT(largest_difference(numbers(folder / "result.h5", "/out"), out), 1e-12) << strategy << " on " << ranks;
      EXPECT_LT(largest_difference(numbers(folder / "result.h5", "/lse"), lse), 1e-12) << strategy << " on " << ranks;
    }
  }
  const Outcome verified = annulus(3, "verify run.yaml --set distribution.strategy=ring_blocking --rows 77");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Runs, EveryStorageTypeVerifies) {
  write("run.yaml", deck("in.h5", "distribution: {strategy: ring}\n"));
  for (const core::DType stored : core::all_dtypes) {
    const std::string type(core::name_of(stored));
    generate("--overwrite --dtype " + type);
    const Outcome ran = annulus(3, "run run.yaml");
    ASSERT_EQ(ran.status, 0) << type << ran.err;
    const Outcome verified = annulus(2, "verify run.yaml");
    EXPECT_EQ(verified.status, 0) << type << verified.out << verified.err;
  }
}

TEST_F(Runs, VerifyFindsAWrongNumber) {
  generate();
  write("run.yaml", deck("in.h5"));
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  spoil(folder / "result.h5", "/out", 0, 1e-3);
  const Outcome verified = annulus(2, "verify run.yaml");
  EXPECT_EQ(verified.status, 3) << verified.out;
}

TEST_F(Runs, GenerateInsideTheRunFileEqualsGenerateToAFile) {
  generate("--seed 9");
  write("run.yaml", deck("in.h5"));
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  const auto from_file = numbers(folder / "result.h5", "/out");
  write("made.yaml",
        "input: {generate: {sequence: 77, heads: 4, kv_heads: 2, head_dim: 20, seed: 9}}\n"
        "attention: {segments: [16, all], dilations: [1, 3]}\noutput: {file: made.h5}\n");
  ASSERT_EQ(annulus(3, "run made.yaml").status, 0);
  EXPECT_LT(largest_difference(numbers(folder / "made.h5", "/out"), from_file), 1e-5);
}

TEST_F(Runs, GeneratedFilesAreTheSameForAnyNumberOfRanksAndThreads) {
  std::vector<std::vector<double>> expected;
  for (const auto& [ranks, threads] : {std::pair{1, 1}, std::pair{1, 3}, std::pair{3, 2}}) {
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    const Outcome made =
        annulus(ranks, "generate --output made.h5 --overwrite --sequence 501 --heads 5 --head-dim 63 --batch 2");
    setenv("OMP_NUM_THREADS", "1", 1);
    ASSERT_EQ(made.status, 0) << made.err;
    std::vector<std::vector<double>> tensors;
    for (const char* name : {"/q", "/k", "/v"}) tensors.push_back(numbers(folder / "made.h5", name));
    if (expected.empty()) expected = tensors;
    EXPECT_TRUE(tensors == expected) << ranks << " ranks of " << threads << " threads";
  }
  ASSERT_EQ(expected[0].size(), 2u * 501 * 5 * 63);
  EXPECT_FALSE(expected[0] == expected[1]);
}

TEST_F(Runs, QuickstartDeckRunsOnItsRealInput) {
  std::filesystem::create_directories(folder / "input");
  std::filesystem::copy(std::string(ANNULUS_SOURCE) + "/input", folder / "input");
  std::filesystem::create_directories(folder / "build");
  const Outcome ran = annulus(2, "run input/quickstart.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* word : {"ring on 2 ranks", "GFLOP", "traffic", "memory", "quickstart.h5"}) {
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << " is missing in:\n" << ran.out;
  }
  EXPECT_EQ(annulus(2, "verify input/quickstart.yaml").status, 0);
}

TEST_F(Runs, ResultTellsWhereItCameFrom) {
  generate();
  write("run.yaml", deck("in.h5", "distribution: {strategy: ring, partition: contiguous}\n"));
  ASSERT_EQ(annulus(3, "run run.yaml --set output.report=report.json").status, 0);
  const auto path = folder / "result.h5";
  EXPECT_EQ(numbers(path, "/run/rows"), (std::vector<double>{26, 26, 25}));
  const auto kept = numbers(path, "/run/kept"), by_hop = numbers(path, "/run/hop_kept");
  ASSERT_EQ(by_hop.size(), 9u) << "3 ranks, own rows and two hops";
  double sum = 0, sum_by_hop = 0;
  for (const double value : kept) sum += value;
  for (const double value : by_hop) sum_by_hop += value;
  EXPECT_EQ(sum, sum_by_hop);
  EXPECT_GT(numbers(path, "/run/kernel_cpu_seconds")[0], 0);
  const auto received = numbers(path, "/run/bytes_received"), from = numbers(path, "/run/bytes_from");
  ASSERT_EQ(from.size(), 9u) << "ranks and senders";
  EXPECT_GT(received[2], 0);  // causal: rank 0 reads nothing of others
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::size_t neighbour = (rank + 2) % 3;  // a ring's only sender
    EXPECT_EQ(from[3 * rank + neighbour], received[rank]);
    EXPECT_EQ(from[3 * rank] + from[3 * rank + 1] + from[3 * rank + 2], received[rank]);
  }
  for (const char* name : {"peak_bytes", "predicted_peak_bytes"}) {
    for (const double bytes : numbers(path, std::string("/run/") + name)) EXPECT_GT(bytes, 26 * 4 * 20 * 4) << name;
  }
  EXPECT_EQ(text_attribute(path, "/run", "strategy"), "ring");
  EXPECT_EQ(text_attribute(path, "/run", "partition"), "contiguous");
  const Outcome dump = shell("h5dump -A result.h5");
  for (const char* word :
       {"git_commit", "command_line", "kokkos", "mpi", "hosts", "backends", "date", "batch sequence head dim"}) {
    EXPECT_NE(dump.out.find(word), std::string::npos) << word;
  }
  const auto report = nlohmann::json::parse(slurp(folder / "report.json"));
  EXPECT_EQ(report["strategy"], "ring");
  EXPECT_EQ(report["ranks"], 3);
  EXPECT_EQ(report["per_rank"]["rows"][0], 26);
}

TEST_F(Runs, ResultsDifferOnlyWhereTheyMay) {
  generate("--dtype float64");
  write("run.yaml", deck("in.h5"));
  ASSERT_EQ(annulus(2, "run run.yaml --set output.file=a.h5").status, 0);
  ASSERT_EQ(annulus(2, "run run.yaml --set output.file=b.h5").status, 0);
  EXPECT_EQ(shell("h5diff a.h5 b.h5 /out && h5diff a.h5 b.h5 /lse").status, 0);
}

/// Datasets of a result file; floats become doubles exactly, so that equal bytes here are equal bytes there.
std::string bits(const std::filesystem::path& file, const std::vector<std::string>& datasets) {
  std::string bytes;
  for (const std::string& dataset : datasets) {
    const std::vector<double> values = numbers(file, dataset);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  }
  return bytes;
}

TEST_F(Runs, ReproducibleRunsGiveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  ASSERT_EQ(annulus(2, "generate --output in.h5 --sequence 1500 --heads 4 --kv-heads 2 --head-dim 40 --dout").status,
            0);
  write("run.yaml",
        "input: {file: in.h5}\nattention: {segments: [256, 600, all], dilations: [1, 3, 4], causal: false}\n"
        "output: {file: result.h5, overwrite: true}\n");
  struct Result {
    std::string forward, gradients;  // empty: not asked for
  };
  const auto run = [&](int ranks, int threads, const std::string& settings) -> Result {
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    const Outcome ran = annulus(ranks, "run run.yaml " + settings);
    setenv("OMP_NUM_THREADS", "1", 1);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(count(ran.out, "the same bits"), count(settings, "reproducible=true")) << ran.out;
    const bool backward = count(settings, "backward=true") > 0;
    return {bits(folder / "result.h5", {"/out", "/lse"}),
            backward ? bits(folder / "result.h5", {"/dq", "/dk", "/dv"}) : ""};
  };
  const std::string no = "--set compute.backward=true --set compute.reproducible=false";
  const std::string forward = "--set compute.reproducible=true", yes = forward + " --set compute.backward=true";
  const Result expected = run(1, 1, yes);
  ASSERT_EQ(expected.forward.size(), 8u * 1500 * 4 * (40 + 1));
  ASSERT_EQ(expected.gradients.size(), 8u * 1500 * (4 + 2 + 2) * 40);
  const auto expect_same = [&](int ranks, int threads, const std::string& settings) {
    SCOPED_TRACE(fmt::format("{} ranks, {} threads {}", ranks, threads, settings));
    const Result found = run(ranks, threads, settings);
    EXPECT_TRUE(found.forward == expected.forward) << "out or lse";
    EXPECT_TRUE(found.gradients.empty() || found.gradients == expected.gradients) << "dq, dk or dv";
  };
  expect_same(1, 3, yes);
  for (const std::string& strategy : able({"onesided"})) {
    expect_same(2, 2, forward + " --set distribution.strategy=" + strategy);
  }
  expect_same(2, 1, yes + " --set distribution.strategy=ulysses");  // on 3 ranks two would share a key/value head
  int ranks = 2;
  for (const char* strategy : {"single", "allgather", "ring", "rotation", "hybrid", "ring_blocking"}) {
    expect_same(ranks, 4 - ranks, yes + " --set distribution.strategy=" + strategy);
    ranks = 5 - ranks;  // 2 and 3 in turn
  }
  expect_same(3, 2, yes + " --set distribution.strategy=ring");
  const Result one = run(1, 1, no), three = run(3, 1, no + " --set distribution.strategy=ring");
  EXPECT_FALSE(three.forward == one.forward) << "the test shows nothing";
  EXPECT_FALSE(three.gradients == one.gradients) << "the test shows nothing";
}

TEST_F(Runs, DryRunPlansForManyRanksAndLeavesNothing) {
  generate();
  write("run.yaml", deck("in.h5", "distribution: {strategy: ring, partition: contiguous}\n"));
  const Outcome dry = annulus(0, "run --dry-run --ranks 4 run.yaml");
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_EQ(count(dry.out, "the same bits"), 0);
  for (const char* word : {"segments", "4 ranks", "[58, 77)", "memory"}) {
    EXPECT_NE(dry.out.find(word), std::string::npos) << word << " is missing in:\n" << dry.out;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "run.yaml"}));
  const Outcome reproducible = annulus(0, "run --dry-run --ranks 4 run.yaml --set compute.reproducible=true");
  EXPECT_NE(reproducible.out.find("the same bits for any number of ranks and threads, in 2 passes, one per pair"),
            std::string::npos);
  // What it prints is a run file that says the same.
  write("again.yaml", dry.out);
  EXPECT_EQ(annulus(2, "run again.yaml").status, 0);
}

TEST_F(Runs, ListAndInfoAndHelp) {
  const Outcome list = annulus(2, "list");
  EXPECT_EQ(list.status, 0);
  std::vector<std::string_view> words{"single", "allgather", "ring", "ring_blocking", "auto", "fsdp"};
  for (const auto& entry : pattern::semantics_table) words.push_back(entry.name);
  for (const auto& entry : pattern::partition_table) words.push_back(entry.name);
  for (const std::string_view word : words) {
    EXPECT_EQ(count(list.out, fmt::format("\n  {} ", word)), 1 + (word == "auto")) << word;
  }
  EXPECT_EQ(count(list.out, "strategies ("), 1) << "only one rank speaks";
  const Outcome info = annulus(2, "info");
  EXPECT_EQ(info.status, 0);
  for (const char* word : {"kokkos", "mpi", "slurm", "srun --mpi=pmi", "tiles", "rank 0", "rank 1", "CPUs"}) {
    EXPECT_NE(info.out.find(word), std::string::npos) << word;
  }
  const Outcome help = annulus(2, "--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.out.rfind("annulus: ", 0), 0u) << "not that of Kokkos:\n" << help.out;
  EXPECT_EQ(annulus(0, "run --help").status, 0);
  EXPECT_EQ(annulus(0, "--version").status, 0);
}

}  // namespace
}  // namespace annulus::test
