// output.trace: for every strategy its spans agree with the times in /run. Kokkos Tools see the same names.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

using nlohmann::json;

const char* const deck = R"(
input: {generate: {sequence: 700, heads: 4, kv_heads: 2, head_dim: 16, dtype: float16}}
attention: {segments: [64, all], dilations: [1, 4]}
compute: {backward: true}
distribution: {strategy: ring}
output: {file: result.h5, trace: trace.json, overwrite: true}
)";

struct Bar {
  std::string name, kind;
  double begin, end;  // us
};

class Traces : public ProgramTest {
 protected:
  /// Spans of every rank, by rank.
  std::map<int, std::vector<Bar>> bars(const std::string& name = "trace.json") const {
    const json trace = json::parse(slurp(folder / name));
    std::map<int, std::vector<Bar>> all;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const double begin = event["ts"], length = event["dur"];
      EXPECT_EQ(event["tid"], 0);
      all[event["pid"]].push_back({event["name"], event["cat"], begin, begin + length});
    }
    return all;
  }

  static double sum(const std::vector<Bar>& bars, const std::string& kind) {
    double seconds = 0;
    for (const Bar& bar : bars) seconds += bar.kind == kind ? 1e-6 * (bar.end - bar.begin) : 0;
    return seconds;
  }

  static double longest(const std::vector<Bar>& bars, const std::string& name) {
    double seconds = 0;
    for (const Bar& bar : bars) seconds = std::max(seconds, bar.name == name ? 1e-6 * (bar.end - bar.begin) : 0);
    return seconds;
  }

  /// Checks that a bar ends inside the bar in which it begins. Times are rounded to 1e-3 us.
  static void expect_nested(const std::vector<Bar>& bars) {
    std::vector<Bar> open;
    for (const Bar& bar : bars) {
      while (!open.empty() && open.back().end <= bar.begin + 5e-4) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(bar.end, open.back().end + 5e-4) << bar.name << " in " << open.back().name;
      }
      open.push_back(bar);
    }
  }

  std::set<std::string> names(const std::vector<Bar>& bars) const {
    std::set<std::string> all;
    for (const Bar& bar : bars) all.insert(bar.name);
    return all;
  }
};

TEST_F(Traces, SumsAreThoseOfTheResult) {
  write("run.yaml", deck);
  const std::map<std::string, std::set<std::string>> shows{
      {"ring", {"pack", "post", "wait"}},
      {"ring_blocking", {"pack", "exchange"}},
      {"rotation", {"pack", "post", "wait"}},
      {"ring_bidirectional", {"pack", "post", "wait"}},
      {"allgather", {"gather", "post", "wait"}},
      {"allgather_overlap", {"gather", "post", "wait"}},
      {"onesided", {"publish", "read window", "add to window", "collect", "wait"}},
      {"ulysses", {"all-to-all"}},
      {"single", {}}};
  for (const auto& [strategy, expected] : shows) {
    if (able({strategy}).empty()) continue;
    SCOPED_TRACE(strategy);
    const Outcome ran = annulus(3, "run run.yaml --set distribution.strategy=" + strategy);
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto all = bars();
    ASSERT_EQ(all.size(), 3u);  // one for each rank
    for (const auto& [rank, spans] : all) {
      expect_nested(spans);
      for (const char* kind : {"compute", "wait"}) {
        double told = 0;
        for (const char* pass : {"", "backward/"}) {
          told += numbers(folder / "result.h5", fmt::format("/run/{}{}_seconds", pass, kind)).at(std::size_t(rank));
        }
        EXPECT_NEAR(sum(spans, kind), told, 1e-9 * double(spans.size()) + 1e-12) << kind << " of rank " << rank;
      }
      double files = 0;
      for (const char* name : {"read", "write"}) {
        files += numbers(folder / "result.h5", fmt::format("/run/{}_seconds", name)).at(std::size_t(rank));
      }
      EXPECT_NEAR(sum(spans, "file") - longest(spans, "finish"), files, 1e-8);
      const std::set<std::string> found = names(spans);
      for (const char* name : {"read", "write", "finish", "barrier", "the attention", "the backward pass", "step"}) {
        EXPECT_TRUE(found.contains(name)) << name << " of rank " << rank;
      }
      for (const std::string& name : expected) EXPECT_TRUE(found.contains(name)) << name << " of rank " << rank;
    }
  }
}

TEST_F(Traces, EveryHopIsAStep) {
  write("run.yaml", deck);
  ASSERT_EQ(annulus(4, "run run.yaml --set compute.backward=false").status, 0);
  const json trace = json::parse(slurp(folder / "trace.json"));
  EXPECT_EQ(trace["otherData"]["software"], "annulus");
  EXPECT_NE(std::string(trace["otherData"]["title"]).find("longnet, causal, 2 pairs (64, 1) (all, 4)"),
            std::string::npos);
  std::map<int, std::vector<int>> steps;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "step") steps[event["pid"]].push_back(event["args"]["number"]);
  }
  ASSERT_EQ(steps.size(), 4u);
  for (const auto& [rank, numbers] : steps) EXPECT_EQ(numbers, (std::vector<int>{0, 1, 2, 3})) << rank;
}

TEST_F(Traces, ALayerIsTracedToo) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 60 --heads 4 --head-dim 8 --layer 24").status, 0);
  write("run.yaml",
        "input: {file: in.h5}\nlayer: {heads: 4, sharding: fsdp}\ncompute: {backward: true}\n"
        "output: {file: result.h5, trace: trace.json}\n");
  const Outcome ran = annulus(2, "run run.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto all = bars();
  EXPECT_EQ(all.size(), 2u);
  for (const auto& [rank, spans] : all) {
    expect_nested(spans);
    for (const char* name : {"gather weights", "products", "reduce", "the layer"}) {
      EXPECT_TRUE(names(spans).contains(name)) << name << " of rank " << rank;
    }
  }
}

TEST_F(Traces, QuotesInNamesStayInsideThem) {
  write("a\"b.yaml", "input: {generate: {sequence: 64, heads: 2, head_dim: 8}}\noutput: {file: 're\"s\\ult.h5'}\n");
  const Outcome ran = annulus(2, "run a\\\"b.yaml --set output.trace=tr\\\"ace.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(bars("tr\"ace.json").size(), 2u);
  EXPECT_TRUE(exists("re\"s\\ult.h5"));
}

TEST_F(Traces, ABadPlaceIsRefusedBeforeTheRun) {
  write("run.yaml", "input: {generate: {sequence: 64, heads: 2, head_dim: 8}}\noutput: {file: result.h5}\n");
  const auto refused = [&](const std::string& trace, int status, const std::string& words) {
    const Outcome outcome = annulus(2, "run run.yaml --set output.trace=" + trace);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(count(outcome.err, "annulus: error:"), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_FALSE(exists("result.h5"));
  };
  refused("nowhere/trace.json", 1, "the output folder " + (folder / "nowhere").string() + " does not exist");
  refused("result.h5", 2, "output.trace is the file of output.file");
  refused("run.yaml", 2, "output.trace is this run file");
  refused("trace.json --set output.report=trace.json", 2, "output.trace is the file of output.report");
  write("trace.json", "precious");
  refused("trace.json", 1, "trace.json: the output exists already");
  EXPECT_EQ(slurp(folder / "trace.json"), "precious");
}

TEST_F(Traces, WhereItCannotBeWrittenTheResultIsThereAllTheSame) {
  write("run.yaml",
        "input: {generate: {sequence: 24576, heads: 4}}\nattention: {causal: false}\n"
        "output: {file: result.h5, report: report.json, trace: sub/trace.json}\n");
  std::filesystem::create_directory(folder / "sub");
  Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM + " run run.yaml");
  // The journal comes after the trace's file. While that file is being made, a lost folder ends the run at once.
  ASSERT_TRUE(run.reaches([&] { return exists("result.h5.journal"); }, 2)) << run.err();
  ASSERT_FALSE(std::filesystem::is_empty(folder / "sub"));
  std::filesystem::remove_all(folder / "sub");
  EXPECT_EQ(run.status(120), 1) << run.err();
  EXPECT_EQ(count(run.err(), "annulus: error: "), 1) << run.err();
  EXPECT_EQ(count(run.err(), "sub/trace.json"), 1) << run.err();
  EXPECT_EQ(files(), (std::vector<std::string>{"report.json", "result.h5", "run.yaml"}));
  EXPECT_EQ(annulus(0, "verify run.yaml --rows 4").status, 0);
}

TEST_F(Traces, TrainingMakesNone) {
  write("run.yaml",
        "input: {file: in.h5}\nlayer: {heads: 4}\ntrain: {steps: 2, rate: 0.1, checkpoint: c.h5}\n"
        "output: {file: result.h5, trace: trace.json}\n");
  const Outcome outcome = annulus(2, "train run.yaml");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("output.trace: train makes no trace"), std::string::npos) << outcome.err;
}

TEST_F(Traces, KokkosToolsSeeTheSameNames) {
  write("run.yaml", deck);
  const std::string tool = fmt::format(
      "env KOKKOS_PROFILE_LIBRARY={0} KOKKOS_TOOLS_LIBS={0} ANNULUS_TEST_COUNTS=counts ", ANNULUS_CONNECTOR);
  const Outcome ran = shell(tool + fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM + " run run.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::map<std::string, int> regions, shown;
  int processes = 0, kernels = 0;
  for (const std::string& name : files()) {
    if (!name.starts_with("counts.")) continue;
    ++processes;
    std::istringstream lines(slurp(folder / name));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t blank = line.rfind(' ');
      const int number = std::stoi(line.substr(blank + 1));
      if (line.starts_with("region ")) regions[line.substr(7, blank - 7)] += number;
      if (line.starts_with("kernel ")) {
        const bool ours = line.starts_with("kernel annulus::");
        EXPECT_TRUE(ours || line.starts_with("kernel Kokkos::")) << line;
        kernels += ours ? 1 : 0;
      }
      if (line.starts_with("regions left open")) {
        EXPECT_EQ(number, 0);
      }
    }
  }
  EXPECT_EQ(processes, 2);
  EXPECT_GT(kernels, 0);
  for (const auto& [rank, spans] : bars()) {
    for (const Bar& bar : spans) shown[bar.name] += bar.kind == "call" ? 0 : 1;
  }
  std::erase_if(shown, [](const auto& entry) { return entry.second == 0; });
  EXPECT_EQ(regions, shown);
}

}  // namespace
}  // namespace annulus::test
