// output.statistics through the program: entropy, received and lists of top rows agree with the definition and with
// each other; what verify finds in them; and the reports of the pass that computes them.
#include <nlohmann/json.hpp>
#include <numeric>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {generate: {sequence: 53, heads: 4, kv_heads: 2, head_dim: 8, batch: 2, dtype: float64}}
attention: {segments: [8, all], dilations: [1, 3]}
distribution: {strategy: ring}
output: {file: result.h5, overwrite: true, statistics: [entropy, received, top], top_keys: 4, report: report.json}
)";
const std::vector<std::string> datasets{"entropy", "received", "top_rows", "top_weights"};

double sum(const std::vector<double>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

class Statistics : public ProgramTest {
 protected:
  std::vector<double> result(const std::string& dataset) const { return numbers(folder / "result.h5", dataset); }
  /// Runs run.yaml and has verify look at every row.
  void expect_good(int ranks, const std::string& set) const {
    const Outcome ran = annulus(ranks, "run run.yaml" + set);
    ASSERT_EQ(ran.status, 0) << ran.err;
    const Outcome verified = annulus(2, "verify run.yaml --rows 53" + set);
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    for (const std::string& name : datasets) EXPECT_EQ(word_on(verified.out, name), "ok") << name << verified.out;
  }
};

TEST_F(Statistics, EveryWayToComputeThemVerifies) {
  write("run.yaml", deck);
  struct Case {
    int ranks;
    const char* strategy;
    const char* more;
  };
  const std::vector<std::string> known = strategies();
  for (const auto& [ranks, strategy, more] : {Case{1, "auto", " --set input.generate.dtype=bfloat16"},
                                              {2, "ulysses", " --set input.generate.dtype=float32"},
                                              {3, "ring", " --set compute.reproducible=true"},
                                              {4, "rotation", " --set attention.causal=false"},
                                              {2, "onesided", ""},
                                              {4, "hybrid", " --set compute.backward=true"}}) {
    SCOPED_TRACE(strategy);
    if (std::find(known.begin(), known.end(), strategy) == known.end()) continue;  // not with this MPI
    expect_good(ranks, fmt::format(" --set distribution.strategy={}{}", strategy, more));
    // Every row sees at least itself, so its probabilities add up to 1, in the accuracy of float32 (bfloat16, too).
    EXPECT_NEAR(sum(result("received")) / (2 * 53 * 4), 1, 1e-5);
    EXPECT_DOUBLE_EQ(sum(result("/run/statistics/kept")), sum(result("/run/kept")));
    const std::vector<double> peak = result("/run/statistics/peak_bytes");
    for (std::size_t p = 0; p < peak.size(); ++p) {
      EXPECT_LE(peak[p], result("/run/statistics/predicted_peak_bytes")[p]) << "rank " << p;
    }
  }
}

/// With one pair and lists that have room for all keys, entropy and received follow from the lists.
TEST_F(Statistics, ListsOfAllKeysTellTheRest) {
  write("run.yaml", deck);
  expect_good(3, " --set attention.segments=[all] --set attention.dilations=[1] --set output.top_keys=64");
  const std::vector<double> rows = result("top_rows"), weights = result("top_weights"), found = result("received");
  std::vector<double> entropy(2 * 53 * 4), received(entropy.size());
  for (std::size_t i = 0; i < entropy.size(); ++i) {
    const std::size_t b = i / (53 * 4), x = i / 4 % 53, h = i % 4;
    for (std::size_t j = 64 * i; j < 64 * (i + 1); ++j) {
      EXPECT_EQ(rows[j] >= 0, j - 64 * i <= x) << "rows up to itself, then -1";
      if (rows[j] < 0) continue;
      entropy[i] -= weights[j] * std::log(weights[j]);
      received[(b * 53 + std::size_t(rows[j])) * 4 + h] += weights[j];
    }
  }
  EXPECT_LT(largest_difference(entropy, result("entropy")), 1e-12);
  EXPECT_LT(largest_difference(received, found), 1e-12);
  EXPECT_EQ(text_attribute(folder / "result.h5", "top_rows", "axes"), "batch sequence head top");
  EXPECT_EQ(text_attribute(folder / "result.h5", "top_rows", "dtype"), "int64");
  EXPECT_EQ(text_attribute(folder / "result.h5", "entropy", "units"), "nats");
}

/// The worked example of filled-in keys (the padding of torchscale): 10 rows, pair (8, 2). Head 0 picks even rows, head
/// 1 odd rows. Rows 8 and 9 see themselves and three filled-in keys.
TEST_F(Statistics, FilledInKeysReceiveTheirShare) {
  write("run.yaml",
        "input: {generate: {sequence: 10, heads: 2, head_dim: 8, dtype: float64}}\n"
        "attention: {semantics: torchscale, causal: false, segments: [8], dilations: [2]}\n"
        "output: {file: result.h5, statistics: [entropy, received, top]}\n");
  expect_good(2, "");
  const std::vector<double> received = result("received"), lse = result("lse"), weights = result("top_weights");
  for (std::size_t h = 0; h < 2; ++h) {
    const std::size_t last = 2 * (8 + h) + h;
    const double own = 1 - 3 * std::exp(-lse[last]);
    EXPECT_NEAR(received[last], own, 1e-12) << "from itself alone";
    EXPECT_NEAR(weights[8 * last], own, 1e-12);
    EXPECT_EQ(weights[8 * last + 1], 0) << "filled-in keys are no rows";
    double all = 0;
    for (std::size_t p = 0; p < 10; ++p) all += received[2 * p + h];
    EXPECT_NEAR(all, 4 + own, 1e-12) << "1 from each of 4 rows of the first segment, and own";
  }
}

TEST_F(Statistics, VerifyFindsChangedNumbers) {
  write("run.yaml", deck);
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  ASSERT_EQ(shell("cp result.h5 good.h5").status, 0);
  const std::vector<double> rows = result("top_rows"), weights = result("top_weights");
  const std::size_t end = rows.size();  // end of the list of the last row, which sees many keys
  struct Change {
    std::string dataset;
    std::size_t index;
    double amount;
  };
  const auto expect_wrong = [&](const std::vector<Change>& changes, const std::string& blamed) {
    SCOPED_TRACE(fmt::format("{} [{}]", blamed, changes.front().index));
    ASSERT_EQ(shell("cp good.h5 result.h5").status, 0);
    for (const auto& [dataset, index, amount] : changes) spoil(folder / "result.h5", dataset, index, amount);
    const Outcome verified = annulus(0, "verify run.yaml");
    EXPECT_EQ(verified.status, 3) << verified.out;
    EXPECT_EQ(word_on(verified.out, blamed), "WRONG") << verified.out;
  };
  for (const std::string& name : datasets) expect_wrong({{name, 0, name == "top_rows" ? 1 : 1e-9}}, name);
  for (const std::string name : {"entropy", "received"}) expect_wrong({{name, result(name).size() - 1, -1e-9}}, name);
  expect_wrong({{"top_rows", end - 1, rows[end - 2] - rows[end - 1]}}, "top_rows");  // one row twice
  expect_wrong({{"top_rows", end - 1, -1 - rows[end - 1]}, {"top_weights", end - 1, -weights[end - 1]}},
               "top_rows");  // the list ends too early
  expect_wrong({{"top_rows", end - 4, rows[end - 3] - rows[end - 4]},
                {"top_rows", end - 3, rows[end - 4] - rows[end - 3]},
                {"top_weights", end - 4, weights[end - 3] - weights[end - 4]},
                {"top_weights", end - 3, weights[end - 4] - weights[end - 3]}},
               "top_weights");  // the second before the first
  ASSERT_EQ(shell("cp good.h5 result.h5").status, 0);
  const Outcome other = annulus(0, "verify run.yaml --set output.statistics=[top]");
  EXPECT_NE(other.err.find("output.statistics: [entropy, received, top] -> [top]"), std::string::npos) << other.err;
}

/// Statistics of 16-bit tensors are not stored in 16 bits, so verify expects smaller errors of them than of out.
TEST_F(Statistics, VerifyExpectsTheAccuracyOfTheSumsOf16BitTensors) {
  write("run.yaml", deck);
  const std::string narrow = "run.yaml --set input.generate.dtype=float16";
  ASSERT_EQ(annulus(2, "run " + narrow).status, 0);
  EXPECT_EQ(annulus(0, "verify " + narrow).status, 0);
  ASSERT_EQ(shell("cp result.h5 good.h5").status, 0);
  for (const std::string name : {"entropy", "received", "top_weights"}) {
    ASSERT_EQ(shell("cp good.h5 result.h5").status, 0);
    spoil(folder / "result.h5", name, 0, 1e-3);
    const Outcome verified = annulus(0, "verify " + narrow);
    EXPECT_EQ(verified.status, 3) << name;
    EXPECT_EQ(word_on(verified.out, name), "WRONG") << verified.out;
  }
}

/// Two rows with equal keys have the same probability: the smaller row number comes first.
TEST_F(Statistics, TiesGoToTheSmallerRow) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 24 --heads 2 --head-dim 8 --dtype float64").status, 0);
  const std::vector<double> k = numbers(folder / "in.h5", "k");
  for (std::size_t i = 0; i < 12 * 16; ++i) spoil(folder / "in.h5", "k", 12 * 16 + i, k[i] - k[12 * 16 + i]);
  write("run.yaml",
        "input: {file: in.h5}\nattention: {causal: false}\n"
        "output: {file: result.h5, overwrite: true, statistics: [top], top_keys: 5}\n");
  for (const int ranks : {1, 3}) {
    ASSERT_EQ(annulus(ranks, "run run.yaml --set distribution.strategy=ring").status, 0);
    const std::vector<double> rows = result("top_rows");
    for (std::size_t i = 0; i < rows.size(); i += 5) {
      EXPECT_EQ(rows[i + 1], rows[i] + 12) << i;
      EXPECT_EQ(rows[i + 3], rows[i + 2] + 12) << i;
      EXPECT_LT(rows[i + 4], 12) << i;
    }
  }
  ASSERT_EQ(annulus(0, "verify run.yaml").status, 0);
  const std::vector<double> rows = result("top_rows");
  spoil(folder / "result.h5", "top_rows", 0, 12);
  spoil(folder / "result.h5", "top_rows", 1, -12);
  EXPECT_EQ(word_on(annulus(0, "verify run.yaml").out, "top_rows"), "WRONG");
}

TEST_F(Statistics, ArePartOfReportsAndPlans) {
  write("run.yaml", deck);
  const Outcome ran = annulus(2, "run run.yaml --set output.file=none");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_FALSE(exists("result.h5"));
  EXPECT_EQ(count(ran.out, "statistics: "), 4) << ran.out;
  EXPECT_EQ(count(ran.out, " s statistics, "), 1) << ran.out;
  const auto report = nlohmann::json::parse(slurp(folder / "report.json"));
  EXPECT_EQ(report["settings"]["statistics"], "entropy received top");
  EXPECT_EQ(report["settings"]["top_keys"], 4);
  EXPECT_EQ(report["statistics"]["per_rank"]["kept"].size(), 2u);
  const Outcome dry = annulus(0, "run --dry-run --ranks 3 run.yaml");
  EXPECT_EQ(count(dry.out, "\n# statistics\n"), 1) << dry.out;
  EXPECT_EQ(count(annulus(0, "run --dry-run --ranks 3 --rank 1 run.yaml").out, "# ring, statistics, rank 1 of 3"), 1);
  // The entropy needs no pass of its own.
  ASSERT_EQ(annulus(2, "run run.yaml --set output.statistics=[entropy] --set output.top_keys=8").status, 0);
  EXPECT_FALSE(nlohmann::json::parse(slurp(folder / "report.json")).contains("statistics"));
  const Outcome verified = annulus(0, "verify run.yaml --set output.statistics=[entropy] --set output.top_keys=8");
  EXPECT_EQ(word_on(verified.out, "entropy"), "ok") << verified.out << verified.err;
  EXPECT_EQ(word_on(verified.out, "received"), "nothing") << verified.out;
}

}  // namespace
}  // namespace annulus::test
