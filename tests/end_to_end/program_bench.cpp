// `annulus bench` from the command line: tables; launches that are killed, are repeated or share work; what is refused.
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

using Json = nlohmann::json;

const std::string deck = R"(
input: {generate: {heads: 2, kv_heads: 1, head_dim: 8}}
attention: {segments: [16, all], dilations: [1, 2]}
bench:
  sweep:
    - distribution.strategy: [ring, rotation, allgather]
    - input.generate.sequence: {from: 64, to: 256, times: 2}
  repeats: 2
  file: sweep.h5
  json: sweep.json
)";

class Bench : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("deck.yaml", deck);
  }
  Json cases(const std::string& file = "sweep.json") const { return Json::parse(slurp(folder / file))["cases"]; }
  /// How often each case is recorded as finished, over all part files.
  std::map<int, int> recorded() const {
    std::map<int, int> times;
    if (!exists("sweep.h5.part")) return times;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "sweep.h5.part")) {
      std::istringstream lines(slurp(entry.path()));
      for (std::string line; std::getline(lines, line) && !lines.eof();) {
        const Json json = Json::parse(line, nullptr, false);
        if (json.is_object() && json.contains("case")) ++times[json["case"]];
      }
    }
    return times;
  }
  void expect_all_once(int all) const {
    const std::map<int, int> times = recorded();
    EXPECT_EQ(int(times.size()), all);
    for (const auto& [number, count] : times) EXPECT_EQ(count, 1) << "case " << number;
    const Json table = cases();
    EXPECT_EQ(int(table.size()), all);
    for (const Json& one : table) EXPECT_EQ(one["status"], "ok") << one;
  }
  void expect_refused(const std::string& arguments, int status, const std::vector<std::string>& words) const {
    for (const int ranks : {0, 2}) {
      const auto before = files();
      const Outcome outcome = annulus(ranks, "bench " + arguments);
      SCOPED_TRACE(fmt::format("{} ranks: {}\n{}", ranks, arguments, outcome.err));
      EXPECT_EQ(outcome.status, status);
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
      EXPECT_EQ(files(), before);
    }
  }
};

TEST_F(Bench, MeasuresChecksAndTells) {
  for (const int ranks : {1, 2, 3}) {
    for (const char* left : {"sweep.h5", "sweep.json", "sweep.h5.part"}) std::filesystem::remove_all(folder / left);
    const Outcome ran = annulus(ranks, "bench deck.yaml");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("9 of 9 cases are measured, 9 of them by this launch"), std::string::npos) << ran.out;
    expect_all_once(9);
    for (const Json& one : cases()) {
      SCOPED_TRACE(one.dump(2));
      EXPECT_EQ(one["ranks"], ranks);
      EXPECT_EQ(one["threads"], 1);
      EXPECT_EQ(one["repeats"], 2);
      EXPECT_GT(one["attention_seconds_min"], 0);
      EXPECT_LE(one["attention_seconds_min"], one["attention_seconds_median"]);
      EXPECT_LE(one["attention_seconds_median"], one["attention_seconds_max"]);
      EXPECT_GT(one["gflop_per_cpu_second"], 0);
      EXPECT_GT(one["share_of_peak"], 0);
      EXPECT_LT(one["share_of_peak"], 2);
      EXPECT_GT(one["predicted_seconds"], 0);
      EXPECT_LT(one["error_out"].get<double>(), 1e-5);
      EXPECT_LT(one["error_lse"].get<double>(), 1e-5);
      EXPECT_TRUE(one["error_gradients"].is_null());
      EXPECT_EQ(one["bytes_received"] == 0, ranks == 1);
      const double q = 2 * 8 * 4, kv = q / 2, rows = double(one["sequence"]) / ranks;
      EXPECT_GT(one["peak_bytes"], rows * (2 * q + 2 * kv));
      EXPECT_LE(one["peak_bytes"], one["predicted_peak_bytes"]);
    }
    // A run of this case alone takes the same memory, and the same memory is predicted for it.
    ASSERT_EQ(annulus(ranks,
                      "run deck.yaml --set output.file=none --set output.report=r.json --set "
                      "output.overwrite=true --set distribution.strategy=rotation --set "
                      "input.generate.sequence=128")
                  .status,
              0);
    const Json told = Json::parse(slurp(folder / "r.json")), &report = told["per_rank"];
    EXPECT_EQ(cases()[4]["partition"], told["settings"]["partition"]) << "what auto took, by its name";
    for (const char* name : {"peak_bytes", "predicted_peak_bytes", "bytes_received"}) {
      const std::vector<double> all = report[name];
      EXPECT_EQ(cases()[4][name], *std::max_element(all.begin(), all.end())) << name << " on " << ranks;
    }
    EXPECT_EQ(cases()[4]["distribution.strategy"], "rotation");
    EXPECT_EQ(cases()[4]["input.generate.sequence"], 128);
    EXPECT_EQ(numbers(folder / "sweep.h5", "/cases/input.generate.sequence"),
              (std::vector<double>{64, 128, 256, 64, 128, 256, 64, 128, 256}));
    EXPECT_EQ(numbers(folder / "sweep.h5", "/cases/error_out")[4], double(cases()[4]["error_out"]));
  }
}

TEST_F(Bench, TheSameCommandAgainDoesWhatIsMissing) {
  ASSERT_EQ(annulus(2, "bench deck.yaml").status, 0);
  const Json before = cases();
  const std::string table = slurp(folder / "sweep.h5");
  const auto again = [&](int left) {
    const Outcome ran = annulus(2, "bench deck.yaml");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find(fmt::format("9 of 9 cases are measured, {} of them by this launch", left)),
              std::string::npos)
        << ran.out;
    EXPECT_EQ(cases(), before);
  };
  again(0);
  EXPECT_EQ(slurp(folder / "sweep.h5"), table) << "a finished table is left as it is";
  std::filesystem::remove(folder / "sweep.h5");
  again(0);  // the table is made from the part files
  std::filesystem::remove_all(folder / "sweep.h5.part");
  again(0);  // the table alone shows what is done
  EXPECT_FALSE(exists("sweep.h5.part"));
}

TEST_F(Bench, GradientsLayersAndFilesAreMeasuredToo) {
  write("gradients.yaml", R"(
input: {generate: {heads: 2, head_dim: 8, sequence: 96}}
bench:
  sweep: [{compute.backward: [false, true]}, {distribution.strategy: [ring, ulysses]}]
  repeats: 1
  file: g.h5
  json: g.json
)");
  const Outcome ran = annulus(2, "bench gradients.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json all = cases("g.json");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0]["backward_seconds_median"].is_null());
  for (const int i : {2, 3}) {
    EXPECT_GT(all[i]["backward_seconds_median"], 0);
    EXPECT_LT(all[i]["error_gradients"].get<double>(), 3e-5);
    EXPECT_NEAR(double(all[i]["gflop"]) / double(all[i - 2]["gflop"]), 3.5, 1e-6);
    EXPECT_GT(all[i]["peak_bytes"], all[i - 2]["peak_bytes"]);
  }
  ASSERT_EQ(annulus(0, "generate --output l\xe4t.h5 --layer 24 --sequence 64 --heads 4 --head-dim 6").status, 0);
  write("layer.yaml", R"(
input: {file: in.h5}
layer: {heads: 4}
compute: {backward: true}
bench: {sweep: [{layer.sharding: [none, fsdp, tensor]}], repeats: 1, file: l.h5, json: l.json}
)");
  const Outcome layers = annulus(2, "bench layer.yaml --set input.file=l\xe4t.h5");  // a name that is not UTF-8
  ASSERT_EQ(layers.status, 0) << layers.err;
  EXPECT_EQ(cases("l.json").size(), 3u);
  for (const Json& c : cases("l.json")) EXPECT_LT(double(c["error_out"]) + double(c["error_gradients"]), 3e-5);
}

TEST_F(Bench, RanksShareATable) {
  const std::string quoted = "\"bench.sweep=[{ranks: [1, 2, 3]}, {input.generate.sequence: [64, 96]}]\"";
  for (const auto& [ranks, measured] : {std::pair(2, 2), {3, 4}, {4, 4}, {1, 6}}) {
    const Outcome ran = annulus(ranks, "bench deck.yaml --set " + quoted);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find(fmt::format("{} of 6 cases are measured", measured)), std::string::npos) << ran.out;
  }
  for (const Json& one : cases()) EXPECT_EQ(one["ranks"], 1 + int(one["number"]) / 2);
  expect_all_once(6);
}

TEST_F(Bench, TasksOfAnArrayShareTheSweep) {
  const auto run = [&](int id, int count, int least) {
    return shell(
        fmt::format("SLURM_ARRAY_TASK_ID={} SLURM_ARRAY_TASK_COUNT={} SLURM_ARRAY_TASK_MIN={} {} bench "
                    "deck.yaml",
                    id, count, least, ANNULUS_PROGRAM));
  };
  for (const auto& [id, measured] : {std::pair(11, 2), {13, 4}, {10, 7}}) {
    const Outcome ran = run(id, 4, 10);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find(fmt::format("{} of 9 cases are measured", measured)), std::string::npos) << ran.out;
  }
  const std::map<int, int> before = recorded();
  EXPECT_EQ(before.size(), 7u);
  EXPECT_FALSE(before.contains(2) || before.contains(6)) << "cases of task 12";
  EXPECT_EQ(cases()[2]["status"], "missing");
  ASSERT_EQ(run(12, 4, 10).status, 0);
  expect_all_once(9);
  const Outcome odd = run(9, 2, 1);  // --array=1,9
  EXPECT_EQ(odd.status, 2);
  EXPECT_NE(odd.err.find("expected an array that is a range: sbatch --array=0-1"), std::string::npos) << odd.err;
}

TEST_F(Bench, LaunchesAtTheSameTimeMakeOneWholeTable) {
  const std::string one = fmt::format(
      "SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0 {} bench deck.yaml > out$i.txt 2>&1 &",
      ANNULUS_PROGRAM);
  const Outcome ran = shell("for i in 0 1 2; do " + one + " done; wait; cat out*.txt");
  EXPECT_EQ(count(ran.out, "of 9 cases are measured"), 3) << ran.out;
  expect_all_once(9);
}

// One of the two table files may be older than the other: a launch ended before it wrote the second, or another launch
// replaced the second. Among launches at the same time this happens once in some hundred runs.
TEST_F(Bench, ATableBehindTheOtherIsMadeAgain) {
  const auto run = [&](const std::string& task) { return shell(task + ANNULUS_PROGRAM + " bench deck.yaml").status; };
  ASSERT_EQ(run("SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0 "), 0);
  const std::filesystem::path early = folder / "early";
  std::filesystem::create_directory(early);
  for (const char* name : {"sweep.h5", "sweep.json"}) std::filesystem::copy(folder / name, early / name);
  ASSERT_EQ(run(""), 0);
  expect_all_once(9);
  for (const char* name : {"sweep.h5", "sweep.json"}) {
    SCOPED_TRACE(name);
    std::filesystem::rename(early / name, folder / name);
    ASSERT_EQ(run(""), 0);
    expect_all_once(9);
    EXPECT_EQ(numbers(folder / "sweep.h5", "/cases/repeats"), std::vector<double>(9, 2));
  }
}

TEST_F(Bench, KilledAtAnyMomentItLosesNothingAndMeasuresNothingTwice) {
  const std::string more =
      " --set \"bench.sweep=[{distribution.strategy: [ring, rotation, allgather, single]}, {input.generate.sequence: "
      "[6144, 6400, 6656, 6912, 7168]}]\" --set bench.repeats=1 --set bench.verify_rows=2";
  std::mt19937 random(7);
  int killed = 0;
  for (int i = 0; i < 10; ++i) {
    Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM + " bench deck.yaml" + more);
    std::this_thread::sleep_for(std::chrono::milliseconds(i == 0 ? 0 : 300 + random() % 900));
    run.reaches([&] { return i > 0 || !recorded().empty(); }, 2);  // a quiet machine needs a second for all cases
    run.send_launcher(SIGKILL);
    run.send_all(SIGKILL);
    killed += run.status(60) == 128 + SIGKILL ? 1 : 0;
    EXPECT_EQ(run.left(), 0);
  }
  EXPECT_GT(killed, 0);
  const Outcome ran = annulus(2, "bench deck.yaml" + more);
  ASSERT_EQ(ran.status, 0) << ran.err;
  expect_all_once(20);
  for (const std::string& name : files()) EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
}

TEST_F(Bench, ARequestToStopKeepsWhatIsFinished) {
  const std::string more = " --set \"bench.sweep=[{input.generate.sequence: {from: 4096, to: 4195, step: 1}}]\"";
  for (const int signal : {SIGUSR1, SIGTERM}) {
    const std::size_t before = recorded().size();
    Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM + " bench deck.yaml" + more);
    ASSERT_TRUE(run.reaches([&] { return recorded().size() > before; }, 2)) << run.err();
    run.send(1, signal);
    EXPECT_EQ(run.status(120), 75) << run.err();
    EXPECT_NE(run.err().find("stopped on request, finished cases are kept; run again to continue"), std::string::npos)
        << run.err();
    EXPECT_GT(recorded().size(), before);
    EXPECT_EQ(count(cases().dump(), "\"ok\""), int(recorded().size()));
  }
}

TEST_F(Bench, ACaseThatCannotBeMeasuredStopsNoOther) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 64 --heads 2 --head-dim 8").status, 0);
  ASSERT_EQ(annulus(0, "generate --output bad.h5 --sequence 64 --heads 2 --head-dim 8").status, 0);
  spoil(folder / "bad.h5", "v", 7, HUGE_VAL);
  write("files.yaml", "bench: {sweep: [{input.file: [bad.h5, in.h5]}], file: f.h5, json: f.json}\n");
  for (const int measured : {1, 0}) {
    const Outcome ran = annulus(2, "bench files.yaml");
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_NE(ran.err.find("case 0 (input.file=bad.h5): "), std::string::npos) << ran.err;
    EXPECT_NE(ran.out.find(fmt::format("1 of 2 cases are measured, {} of them", measured)), std::string::npos)
        << ran.out;
    EXPECT_EQ(cases("f.json")[0]["status"], "failed");
    EXPECT_EQ(cases("f.json")[1]["status"], "ok");
  }
  std::filesystem::copy_file(folder / "in.h5", folder / "bad.h5", std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(annulus(2, "bench files.yaml").status, 0) << "the case is tried again";
  EXPECT_EQ(cases("f.json")[0]["status"], "ok");
}

TEST_F(Bench, MistakesAreFoundBeforeAnythingRuns) {
  expect_refused(
      "deck.yaml --set \"bench.sweep=[{distribution.strategy: [ring, rong], input.generate.sequence: [8, 8]}]\"", 2,
      {"bench: case 1 (distribution.strategy=rong, input.generate.sequence=8): ", "there is no strategy 'rong'"});
  expect_refused("deck.yaml --set \"bench.sweep=[{distribution.strateg: [ring]}]\"", 2,
                 {"there is no key 'distribution.strateg', did you mean 'distribution.strategy'?"});
  expect_refused("deck.yaml --set bench.repeats=0", 2, {"bench.repeats: found '0', expected"});
  expect_refused("deck.yaml --set bench.file=absent/s.h5", 1, {"the output folder", "does not exist"});
  expect_refused("absent.yaml", 2, {"absent.yaml"});
  write("plain.yaml", "input: {generate: {sequence: 8, heads: 2}}\noutput: {file: o.h5}\n");
  expect_refused("plain.yaml", 2, {"plain.yaml:1:1: bench needs a section bench"});
  write("one.yaml",
        "input: {generate: {heads: 2, sequence: 8}}\nbench: {sweep: [{input.generate.sequence: [8, 16]}, "
        "{distribution.ulysses_ranks: [5]}], file: s.h5}\n");
  expect_refused("one.yaml", 2,
                 {"bench: case 0 (input.generate.sequence=8, distribution.ulysses_ranks=5): one.yaml:2:"});
}

TEST_F(Bench, TablesOfOtherSweepsAreRefusedWithTheDifference) {
  ASSERT_EQ(annulus(2, "bench deck.yaml").status, 0);
  const std::string before = slurp(folder / "sweep.h5");
  expect_refused("deck.yaml --set bench.repeats=3", 1,
                 {"sweep.h5", "belongs to another sweep: bench.repeats: 2 -> 3; give bench.file another name"});
  std::filesystem::remove_all(folder / "sweep.h5.part");
  expect_refused("deck.yaml --set attention.causal=false", 1,
                 {"sweep.h5: belongs to another sweep: attention.causal: true -> false"});
  EXPECT_EQ(slurp(folder / "sweep.h5"), before);
  write("result.yaml", "input: {generate: {sequence: 8, heads: 2}}\noutput: {file: result.h5}\n");
  ASSERT_EQ(annulus(0, "run result.yaml").status, 0);
  expect_refused("deck.yaml --set bench.file=result.h5", 1, {"result.h5: exists already and is no table"});
  expect_refused("deck.yaml --set bench.json=result.yaml", 1, {"result.yaml: exists already and is no table"});
}

// If input.file contains only links, it stays the same when the numbers change.
TEST_F(Bench, ATableOfOtherNumbersBehindLinksIsRefused) {
  const std::string make = "generate --output other.h5 --overwrite --heads 2 --head-dim 8 --sequence 64 --seed ";
  ASSERT_EQ(annulus(0, make + "1").status, 0);
  const hid_t file = H5Fcreate((folder / "links.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  for (const char* name : {"q", "k", "v"}) H5Lcreate_external("other.h5", name, file, name, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  write("links.yaml", "input: {file: links.h5}\nbench: {sweep: [{attention.causal: [true]}], file: l.h5}\n");
  for (int launch = 0; launch < 2; ++launch) ASSERT_EQ(annulus(1, "bench links.yaml").status, 0) << launch;
  ASSERT_EQ(annulus(0, make + "2").status, 0);
  expect_refused("links.yaml", 1, {"l.h5: case 0 was measured with other contents of input.file: ", "other files: 1"});
}

/// A run file of input/bench in which every number of three digits or more is divided by `divisor`, and ranks begin at
/// 2, not 8. Keys, axes and strategies stay the same, but sequences and ranks are so few that a run takes no time.
std::string miniature(const std::string& whole, long divisor) {
  const std::string text = std::regex_replace(whole, std::regex("ranks: \\{from: 8,"), "ranks: {from: 2,");
  const std::regex number("(^|[^0-9.])([0-9]{3,})(?![0-9.])");
  std::string small;
  auto last = text.begin();
  for (auto i = std::sregex_iterator(text.begin(), text.end(), number); i != std::sregex_iterator(); ++i) {
    small.append(last, (*i)[2].first);
    small += std::to_string(std::max(1L, std::stol((*i)[2]) / divisor));
    last = (*i)[2].second;
  }
  return small.append(last, text.end());
}

TEST_F(Bench, EveryDeckRunsInMiniature) {
  struct Deck {
    std::string name;
    std::vector<int> launches;
    long divisor = 64;
    std::string more{};
    std::string more_whole{};  ///< for a dry run of the deck as it is
  };
  const std::string shortest_and_longest =
      " --set \"bench.skip=[{input.generate.sequence: 4}, {input.generate.sequence: 8}, {input.generate.sequence: 16}, "
      "{input.generate.sequence: 32}, {input.generate.sequence: 64}]\"";
  // A dry run of the whole file plans only the ends of both axes: to plan all 1344 cases would take a minute.
  const std::string ends =
      " --set \"bench.skip=[{input.generate.sequence: 16384}, {input.generate.sequence: 32768}, "
      "{input.generate.sequence: "
      "65536}, {input.generate.sequence: 131072}, {input.generate.sequence: 262144}, {ranks: 16}, {ranks: 32}]\"";
  const std::string layer = (folder / "layer.h5").string(), of_layer = " --set input.file=" + layer;
  ASSERT_EQ(annulus(1, "generate --output " + layer + " --layer 8 --sequence 64 --heads 8 --head-dim 1").status, 0);
  std::vector<Deck> decks{{"one_device", {1}},       {"two_ranks", {2}},         {"memory", {1, 2}},
                          {"threshold", {2}},        {"strong_scaling", {1, 2}}, {"weak_scaling", {1, 2}},
                          {"long_sequences", {1, 2}}};
  decks.push_back({"layer_sharding", {2}, 64, of_layer, of_layer});
  decks.push_back({"masks", {2}, 4096, shortest_and_longest, ends});
  std::set<std::string> known{"own_tensors.yaml"};  // tools/python/tests/test_readme.py runs it
  for (const Deck& deck : decks) {
    SCOPED_TRACE(deck.name);
    known.insert(deck.name + ".yaml");
    const std::string source = fmt::format("{}/input/bench/{}.yaml", ANNULUS_SOURCE, deck.name);
    write("mini.yaml", miniature(slurp(source), deck.divisor));
    for (const char* left : {"d.h5", "d.json", "d.h5.part"}) std::filesystem::remove_all(folder / left);
    for (const int ranks : deck.launches) {
      const Outcome ran = annulus(ranks,
                                  "bench mini.yaml --set bench.file=d.h5 --set bench.json=d.json --set "
                                  "bench.repeats=1 --set bench.warmup=0" +
                                      deck.more);
      ASSERT_EQ(ran.status, 0) << ran.err;
    }
    for (const Json& one : cases("d.json")) {
      const bool launched =
          std::find(deck.launches.begin(), deck.launches.end(), int(one["ranks"])) != deck.launches.end();
      EXPECT_EQ(one["status"], launched ? "ok" : "missing") << one.dump(2);
    }
    const Outcome whole = annulus(0, "bench --dry-run " + source + deck.more_whole);
    EXPECT_EQ(whole.status, 0) << whole.err;
  }
  for (const auto& entry : std::filesystem::directory_iterator(std::string(ANNULUS_SOURCE) + "/input/bench")) {
    EXPECT_TRUE(known.contains(entry.path().filename().string())) << entry.path() << " is run by no test";
  }
}

}  // namespace
}  // namespace annulus::test
