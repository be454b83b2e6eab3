// Valid run files and what they mean; input/reference.yaml agrees with the code.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {
namespace {

using core::DType;
using core::Precision;
using pattern::Pair;

const std::string good = "input: {file: a.h5}\noutput: {file: b.h5}\n";

const std::string with_layer = "layer: {heads: 4}\ntrain: {steps: 3, rate: 0.5, checkpoint: c.h5}\n";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RunFile, DefaultsAreThoseOfTheStructs) {
  const RunFile run = parse_run_file(good, "/data/run.yaml", {});
  const Settings& s = run.settings;
  EXPECT_EQ(s.input.file, "/data/a.h5");
  EXPECT_EQ(s.output.file, "/data/b.h5");
  EXPECT_FALSE(s.input.generate);
  EXPECT_EQ(s.input.q, "/q");
  EXPECT_EQ(s.input.dout, "/dout");
  EXPECT_EQ(s.input.dlse, std::nullopt);
  EXPECT_EQ(s.input.documents, std::nullopt);
  EXPECT_EQ(s.input.axes, std::nullopt) << "bshd, unless the file says otherwise";
  EXPECT_EQ(s.attention.pattern.pairs, std::vector<Pair>{Pair{}});
  EXPECT_TRUE(s.attention.pattern.causal);
  EXPECT_EQ(s.attention.scale, std::nullopt);
  EXPECT_FALSE(s.compute.gradients);
  EXPECT_EQ(s.compute.precision, std::nullopt);
  EXPECT_EQ(s.compute.reproducible, false);
  EXPECT_EQ(s.distribution.strategy, "auto");
  EXPECT_FALSE(s.distribution.local_below) << "auto";
  EXPECT_EQ(s.distribution.transport, comm::Transport::mpi);
  EXPECT_EQ(s.distribution.gpu_aware, comm::GpuAware::automatic);
  EXPECT_EQ(s.distribution.stall_timeout, 300);
  EXPECT_EQ(s.distribution.machine, std::nullopt);
  EXPECT_EQ(s.distribution.ulysses_ranks, std::nullopt);
  EXPECT_FALSE(s.output.overwrite);
  EXPECT_EQ(s.output.report, std::nullopt);
}

const std::string everything = R"(
input:
  generate: {sequence: 1000, heads: 6, kv_heads: 3, head_dim: 80, batch: 2, dtype: bfloat16, seed: 7}
attention:
  segments: &w [128, 512, all]
  dilations: [1, 2, 4]
  semantics: paper
  causal: false
  scale: 1.25e-1
compute: {precision: float64, backward: true, reproducible: true}
distribution: {strategy: "hybrid", partition: contiguous, local_below: 0, transport: nccl, gpu_aware: off, stall_timeout: 2.5, machine: m.yaml, ulysses_ranks: 4}
output: {file: "out put: #1.h5", overwrite: true, statistics: [received, top], top_keys: 5, report: sub/../report.json}
)";

TEST(RunFile, EveryKeyArrives) {
  const Settings s = parse_run_file(everything, "/data/run.yaml", {}).settings;
  ASSERT_TRUE(s.input.generate);
  EXPECT_EQ(s.input.generate->shape, (core::Shape{2, 1000, 6, 3, 80}));
  EXPECT_EQ(s.input.generate->type, DType::bfloat16);
  EXPECT_EQ(s.input.generate->seed, 7u);
  EXPECT_EQ(s.input.file, std::nullopt);
  EXPECT_EQ(s.attention.pattern.pairs, (std::vector<Pair>{{128, 1}, {512, 2}, {pattern::whole_document, 4}}));
  EXPECT_EQ(s.attention.pattern.semantics, pattern::Semantics::paper);
  EXPECT_FALSE(s.attention.pattern.causal);
  EXPECT_EQ(s.attention.scale, 0.125);
  EXPECT_TRUE(s.compute.gradients);
  EXPECT_EQ(s.compute.precision, Precision::float64);
  EXPECT_EQ(s.compute.reproducible, true);
  EXPECT_EQ(s.distribution.strategy, "hybrid");
  EXPECT_EQ(s.distribution.ulysses_ranks, 4);
  EXPECT_EQ(s.distribution.partition, pattern::PartitionKind::contiguous);
  EXPECT_EQ(s.distribution.local_below, 0);
  EXPECT_EQ(s.distribution.transport, comm::Transport::nccl);
  EXPECT_EQ(s.distribution.gpu_aware, comm::GpuAware::off);
  EXPECT_EQ(s.distribution.stall_timeout, 2.5);
  EXPECT_EQ(s.distribution.machine, "/data/m.yaml");
  EXPECT_EQ(s.output.file, "/data/out put: #1.h5");
  EXPECT_TRUE(s.output.overwrite);
  EXPECT_EQ(s.output.report, "/data/report.json");
  for (const Precision precision : core::all_precisions) {
    const std::vector<std::string> set{"compute.precision=" + std::string(core::name_of(precision))};
    EXPECT_EQ(parse_run_file(everything, "run.yaml", set).settings.compute.precision, precision);
  }
}

TEST(RunFile, HintsAndAlignment) {
  const std::string text =
      "input: {file: a.h5}\n"
      "output: {file: b.h5, alignment: 4MiB, hints: {striping_factor: 8, note: 'a b'}}\n";
  const RunFile run = parse_run_file(text, "/data/run.yaml", {});
  const Settings& s = run.settings;
  EXPECT_EQ(s.output.hints, (comm::FileHints{{"striping_factor", "8"}, {"note", "a b"}}));
  EXPECT_EQ(s.output.alignment, 4 << 20);
  const Settings again = parse_run_file(resolved_text(s), "/data/run.yaml", {}).settings;
  EXPECT_EQ(again.output.hints, s.output.hints);
  EXPECT_EQ(again.output.alignment, s.output.alignment);
  const std::string odd = "output.hints={\"a b\": 3, \"#x\": 4, \"c: d\": 5, \"{e\": 6, \"7\": 7, \"null\": 8}";
  const Settings quoted = parse_run_file(good, "/data/run.yaml", {odd}).settings;
  ASSERT_EQ(quoted.output.hints.size(), 6u);
  EXPECT_EQ(quoted.output.hints[1], (std::pair<std::string, std::string>("#x", "4")));
  EXPECT_EQ(parse_run_file(resolved_text(quoted), "/data/run.yaml", {}).settings.output.hints, quoted.output.hints);
  const Settings none = parse_run_file(good, "/data/run.yaml", {"output.hints={}", "output.alignment=auto"}).settings;
  EXPECT_TRUE(none.output.hints.empty());
  EXPECT_FALSE(none.output.alignment);
  EXPECT_TRUE(differences(s, none).empty()) << "they change no numbers";
}

TEST(RunFile, GradientsOfTheInput) {
  const std::string text = "input: {file: a.h5, dout: /g/dout, dlse: /g/dlse}\noutput: {file: b.h5}\n";
  const Settings s = parse_run_file(text + "compute: {backward: true}\n", "/data/run.yaml", {}).settings;
  EXPECT_EQ(s.input.dout, "/g/dout");
  EXPECT_EQ(s.input.dlse, "/g/dlse");
  // Without compute.backward input.dout is not read, so it is not among the differences.
  const Settings forward = parse_run_file(text, "/data/run.yaml", {"input.dlse=none"}).settings;
  EXPECT_EQ(forward.input.dlse, std::nullopt);
  EXPECT_EQ(differences(s, forward),
            (std::vector<std::string>{"input.dlse: /g/dlse -> none", "compute.backward: true -> false"}));
}

TEST(RunFile, StatisticsAreSomeOfTheirWords) {
  const auto settings = [](const std::vector<std::string>& overrides) {
    return parse_run_file(good, "/data/run.yaml", overrides).settings;
  };
  const Settings none = settings({"output.statistics=[]"}), one = settings({"output.statistics=[received]"}),
                 all = settings({"output.statistics=[top, entropy]", "output.top_keys=3"});
  EXPECT_TRUE(none.output.statistics.empty());
  EXPECT_FALSE(one.output.has(Statistic::entropy));
  EXPECT_TRUE(one.output.has(Statistic::received));
  EXPECT_EQ(all.output.statistics, (std::vector{Statistic::entropy, Statistic::top})) << "in the order of the enum";
  EXPECT_EQ(all.output.top_keys, 3);
  EXPECT_EQ(resolved_text(one).find("top_keys"), std::string::npos) << "unused without top";
  EXPECT_NE(resolved_text(all).find("  statistics: [entropy, top]\n  top_keys: 3\n"), std::string::npos);
  EXPECT_TRUE(differences(all, settings({"output.statistics=[entropy, top]", "output.top_keys=3"})).empty());
  EXPECT_EQ(differences(none, one), std::vector<std::string>{"output.statistics: [] -> [received]"});
}

TEST(RunFile, KvHeadsDefaultToHeads) {
  const auto run = parse_run_file("input: {generate: {sequence: 5, heads: 4}}\noutput: {file: b.h5}\n", "r.yaml", {});
  EXPECT_EQ(run.settings.input.generate->shape, (core::Shape{1, 5, 4, 4, 64}));
}

TEST(RunFile, GroupScaleOfGrouped) {
  const std::string grouped =
      "attention: {semantics: grouped, segments: [4, 8], dilations: [1, 2], group_scale: true}\n";
  const RunFile run = parse_run_file(good + grouped, "run.yaml", {});
  EXPECT_TRUE(run.settings.attention.pattern.group_scale);
}

TEST(RunFile, LayerAndTrain) {
  const Settings plain = parse_run_file(good + with_layer, "/data/run.yaml", {}).settings;
  ASSERT_TRUE(plain.layer && plain.train);
  EXPECT_EQ(plain.layer->kv_heads, 4) << "as many as heads";
  EXPECT_EQ(plain.layer->rope, std::nullopt);
  EXPECT_EQ(plain.layer->bq, std::nullopt);
  EXPECT_EQ(plain.layer->sharding, "none");
  EXPECT_EQ(plain.train->target, "/target");
  EXPECT_EQ(plain.train->save_every, 10);
  const std::string text =
      "layer: {heads: 6, kv_heads: 2, x: /in, dy: /g, wq: /a, wk: /b, wv: /c, wo: /d, bq: /e, bk: /f, bv: /h, bo: /i, "
      "rope: {base: 1e4}, sharding: fsdp}\n"
      "train: {steps: 20, rate: 2.5, target: /t, checkpoint: sub/c.h5, save_every: 3}\n";
  const Settings s = parse_run_file(good + text, "/data/run.yaml", {}).settings;
  const LayerSettings& layer = *s.layer;
  EXPECT_EQ((std::vector<std::string>{layer.x, layer.dy, layer.wq, layer.wk, layer.wv, layer.wo, *layer.bq, *layer.bk,
                                      *layer.bv, *layer.bo}),
            (std::vector<std::string>{"/in", "/g", "/a", "/b", "/c", "/d", "/e", "/f", "/h", "/i"}));
  EXPECT_EQ(layer.heads, 6);
  EXPECT_EQ(layer.kv_heads, 2);
  EXPECT_EQ(layer.rope, 10000);
  EXPECT_EQ(layer.sharding, "fsdp");
  EXPECT_EQ(s.train->steps, 20);
  EXPECT_EQ(s.train->rate, 2.5);
  EXPECT_EQ(s.train->target, "/t");
  EXPECT_EQ(s.train->checkpoint, "/data/sub/c.h5");
  EXPECT_EQ(s.train->save_every, 3);
  // differences() lists keys that must be equal to go on from a checkpoint: of those changed here, only train.rate.
  const Settings longer = parse_run_file(good + text, "/data/run.yaml",
                                         {"train.steps=40", "train.save_every=1", "layer.sharding=tensor",
                                          "train.checkpoint=other.h5", "train.rate=1"})
                              .settings;
  EXPECT_EQ(differences(s, longer), std::vector<std::string>{"train.rate: 2.5 -> 1"});
}

TEST(RunFile, ResolvedTextSaysTheSame) {
  const std::string layer = "layer: {heads: 6, rope: {base: 500}, bo: /bo, sharding: tensor}\n";
  for (const std::string& text : {good, everything, good + with_layer, good + layer}) {
    const Settings s = parse_run_file(text, "/data/run.yaml", {}).settings;
    const std::string resolved = resolved_text(s);
    const Settings again = parse_run_file(resolved, "/elsewhere/copy.yaml", {}).settings;
    EXPECT_EQ(resolved_text(again), resolved);
    EXPECT_EQ(again.output.file, s.output.file);
    EXPECT_EQ(again.attention.pattern.pairs, s.attention.pattern.pairs);
    EXPECT_EQ(again.attention.scale, s.attention.scale);
    EXPECT_TRUE(differences(s, again).empty());
  }
}

TEST(RunFile, ResolvedTextHasEveryKey) {
  const std::string resolved = resolved_text(parse_run_file(good, "/data/run.yaml", {}).settings);
  EXPECT_EQ(resolved.find("input:\n  file: /data/a.h5\n  axes: bshd\n  q: /q\n"), 0u) << resolved;
  EXPECT_NE(resolved.find("\nattention:\n  semantics: longnet\n  segments: [all]\n"), std::string::npos) << resolved;
  for (const Key<Settings>& key : run_file_keys()) {
    if (!key.has_section(Settings{}) || key.name == "output.top_keys") continue;  // only with statistic top
    EXPECT_NE(resolved.find(fmt::format("\n  {}: ", word_of(key.name))), std::string::npos) << key.name;
  }
}

TEST(RunFile, AwkwardPathsSurvive) {
  for (const std::string name : {"a b.h5", "a: b.h5", "#a.h5", "a\"b\\c.h5", "ä.h5", "tab\tline\n.h5", "null", "010"}) {
    Settings s = parse_run_file(good, "/data/run.yaml", {}).settings;
    s.output.file = "/data/" + name;
    s.input.q = name;
    const Settings again = parse_run_file(resolved_text(s), "/data/copy.yaml", {}).settings;
    EXPECT_EQ(again.output.file, s.output.file);
    EXPECT_EQ(again.input.q, name);
  }
}

TEST(RunFile, OverridesWin) {
  const Settings s =
      parse_run_file(good, "/data/run.yaml",
                     {"input.file=sub/c.h5", "attention.segments=[4, all]", "attention.dilations=[1, 2]",
                      "distribution={strategy: ring}", "distribution.local_below=1", "output.overwrite=false",
                      "output.overwrite=true", "output.file=\"take #2.h5\"", "input.q=q#1"})
          .settings;
  EXPECT_EQ(s.input.file, "/data/sub/c.h5");
  EXPECT_EQ(s.attention.pattern.pairs, (std::vector<Pair>{{4, 1}, {pattern::whole_document, 2}}));
  EXPECT_EQ(s.distribution.strategy, "ring");
  EXPECT_EQ(s.distribution.local_below, 1);
  EXPECT_TRUE(s.output.overwrite);
  EXPECT_EQ(s.output.file, "/data/take #2.h5");
  EXPECT_EQ(s.input.q, "q#1");
}

TEST(RunFile, AliasesAreValues) {
  const Settings s =
      parse_run_file(good + "attention: {segments: &a [2, 3], dilations: *a}\n", "/data/run.yaml", {}).settings;
  EXPECT_EQ(s.attention.pattern.pairs, (std::vector<Pair>{{2, 2}, {3, 3}}));
}

TEST(RunFile, PlacesOfKeys) {
  const RunFile run = parse_run_file(good + "distribution:\n  strategy: rnig\n", "run.yaml", {"attention.causal=true"});
  EXPECT_EQ(run.where("distribution.strategy"), "run.yaml:4:3: ");
  EXPECT_EQ(run.where("distribution.partition"), "run.yaml:3:1: ");  // not given: the place of its section
  EXPECT_EQ(run.where("compute.precision"), "run.yaml:1:1: ");       // no section either: the start of the file
  EXPECT_EQ(run.where("attention.causal"), "--set attention.causal=true: ");
}

TEST(RunFile, DifferencesThatDecideTheNumbers) {
  const Settings a = parse_run_file(good, "/data/run.yaml", {}).settings;
  const Settings b = parse_run_file(good, "/moved/run.yaml",
                                    {"attention.causal=false", "attention.scale=0.5", "distribution.strategy=ring",
                                     "output.overwrite=true"})
                         .settings;
  const std::vector<std::string> expected{"attention.causal: true -> false", "attention.scale: auto -> 0.5"};
  EXPECT_EQ(differences(a, b), expected);  // folder, strategy and output decide no numbers
  const Settings c = parse_run_file(good, "/data/run.yaml", {"input.file=other.h5"}).settings;
  EXPECT_EQ(differences(a, c), std::vector<std::string>{"input.file: /data/a.h5 -> /data/other.h5"});
  EXPECT_TRUE(differences(a, c, {"input.file"}).empty()) << "known to hold the same numbers";
  const Settings d = parse_run_file(good, "/data/run.yaml", {"input.axes=bhsd"}).settings;
  EXPECT_EQ(d.input.axes, core::AxisOrder::bhsd);
  EXPECT_EQ(differences(a, d, {"input.file"}), std::vector<std::string>{"input.axes: bshd -> bhsd"});
  EXPECT_TRUE(differences(a, parse_run_file(good, "/data/run.yaml", {"input.axes=bshd"}).settings).empty());
}

TEST(Suggest, NearWords) {
  const std::vector<std::string> words{"ring", "ring_blocking", "allgather", "single"};
  EXPECT_EQ(suggest("rnig", words), ", did you mean 'ring'?");
  EXPECT_EQ(suggest("rin", words), ", did you mean 'ring'?");
  EXPECT_EQ(suggest("ring_blokcing", words), ", did you mean 'ring_blocking'?");
  EXPECT_EQ(suggest("all_gather", words), ", did you mean 'allgather'?");
  EXPECT_EQ(suggest("zigzag", words), "");
  EXPECT_EQ(suggest("ab", words), "");
  EXPECT_EQ(suggest("Ring_Blocking", words), ", did you mean 'ring_blocking'?");
}

TEST(Suggest, NamesThatOtherProgramsUse) {
  const std::vector<std::string> types{"float64", "float32", "float16", "bfloat16"}, flags{"true", "false"};
  for (const char* word : {"bf16", "BF16"}) EXPECT_EQ(suggest(word, types), ", did you mean 'bfloat16'?") << word;
  for (const char* word : {"fp16", "half", "f16"}) EXPECT_EQ(suggest(word, types), ", did you mean 'float16'?") << word;
  for (const char* word : {"float", "single"}) EXPECT_EQ(suggest(word, types), ", did you mean 'float32'?") << word;
  for (const char* word : {"double", "fp64"}) EXPECT_EQ(suggest(word, types), ", did you mean 'float64'?") << word;
  for (const char* word : {"yes", "On", "1", "TRUE"}) EXPECT_EQ(suggest(word, flags), ", did you mean 'true'?") << word;
  for (const char* word : {"no", "off", "0", "False"})
    EXPECT_EQ(suggest(word, flags), ", did you mean 'false'?") << word;
  EXPECT_EQ(suggest("bf16", flags), "");
  EXPECT_EQ(suggest("on", {"auto", "on", "off"}), ", did you mean 'on'?");
}

/// In reference.yaml "# " comments out two groups of keys: those of `generate`, which exclude input.file, and those of
/// the sections layer, train and bench, which make another kind of run. The two functions remove this "# ".
std::string with_generate(const std::string& text) {
  return std::regex_replace(text, std::regex("\n  # (generate:|  [a-z_]+:)"), "\n  $1");
}
std::string with_everything(const std::string& text) {
  return std::regex_replace(with_generate(text), std::regex("\n# (layer:|train:|bench:|  [a-z_]+: )"), "\n$1");
}

TEST(ReferenceFile, IsAccepted) {
  const std::string text = text_of(ANNULUS_REFERENCE);
  const Settings s = parse_run_file(text, "/data/run.yaml", {}).settings;
  EXPECT_EQ(
      resolved_text(s),
      resolved_text(
          parse_run_file("input: {file: tokens.h5}\noutput: {file: result.h5}\n", "/data/run.yaml", {}).settings));
  const std::string generating = std::regex_replace(with_generate(text), std::regex("\n  file: tokens.h5[^\n]*"), "");
  EXPECT_EQ(parse_run_file(generating, "/data/run.yaml", {}).settings.input.generate->shape.sequence, 65536);
}

// For every key reference.yaml gives the default as its value and, in a comment, the range of values, as the code does.
TEST(ReferenceFile, ListsEveryKeyWithDefaultUnitAndRange) {
  std::stringstream lines(with_everything(text_of(ANNULUS_REFERENCE)));
  std::map<std::string, std::pair<std::string, std::string>> listed;  // key -> value, comment
  std::vector<std::string> path;
  const std::regex form(R"(^( *)([a-z_]+): *([^#]*?) *(?:# (.*))?$)");
  std::smatch part;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    ASSERT_TRUE(std::regex_match(line, part, form)) << line;
    path.resize(part[1].length() / 2);
    path.push_back(part[2]);
    const std::string key = fmt::format("{}", fmt::join(path, "."));
    if (part[3].length() > 0) listed[key] = {part[3], part[4]};
  }
  Settings defaults;
  defaults.input.generate.emplace();
  const Settings alone = defaults;  // without a layer, which would make q, k and v itself
  defaults.layer.emplace();
  defaults.train.emplace();
  defaults.bench.emplace();
  for (const Key<Settings>& key : run_file_keys()) {
    ASSERT_TRUE(listed.contains(key.name)) << key.name << " is not in reference.yaml";
    const auto& [value, comment] = listed[key.name];
    const std::string fallback = key.write(defaults);
    if (!fallback.empty()) {
      EXPECT_EQ(value, fallback) << key.name;
    }
    EXPECT_TRUE(!key.required || fallback.empty()) << key.name << " is required and has a default";
    EXPECT_EQ(comment, key.range) << key.name;
    const bool no_use = key.name == "input.axes" || key.name == "output.top_keys";
    EXPECT_EQ(key.text(alone).empty(), !key.has_section(alone) || fallback.empty() || no_use);
  }
  EXPECT_EQ(listed.size(), run_file_keys().size()) << "reference.yaml has keys the code does not know";
}

// Every word that the range of a key lists can be read, and is written again. This includes words that are added later.
TEST(RunFile, EveryWordOfAChoiceIsReadAndWritten) {
  const std::string generate = "input: {generate: {sequence: 4, heads: 2}}\noutput: {file: b.h5}\n";
  int words = 0;
  for (const Key<Settings>& key : run_file_keys()) {
    const std::regex choices("^([a-z_0-9]+( \\| [a-z_0-9]+)+)([ ;:].*)?$");
    std::smatch part;
    if (!std::regex_match(key.range, part, choices)) continue;
    const bool input = key.name == "input.axes", optional = !key.has_section(Settings{});
    const std::string base =
        (!input && !optional) || key.name.starts_with("input.generate.") ? generate : good + with_layer;
    std::istringstream list(part[1]);
    for (std::string word; list >> word;) {
      if (word == "|" || key.name == "attention.group_scale") continue;
      const Settings s = parse_run_file(input ? good : base, "/data/run.yaml", {key.name + "=" + word}).settings;
      EXPECT_EQ(key.text(s), word) << key.name;
      ++words;
    }
  }
  EXPECT_GE(words, int(core::all_dtypes.size() + pattern::semantics_table.size() + pattern::partition_table.size()));
}

TEST(RunFile, PathsOfAStreamStartInTheCurrentFolder) {
  const std::string here = std::filesystem::current_path().string();
  for (const char* stream : {"/dev/stdin", "/dev/fd/63", "/proc/self/fd/0"}) {
    const Settings s = parse_run_file(good, stream, {}).settings;
    EXPECT_EQ(s.input.file, here + "/a.h5") << stream;
    EXPECT_EQ(s.output.file, here + "/b.h5") << stream;
  }
  for (const std::string folder : {"/dev/shm", "/process", "/dev/fd/x"}) {
    EXPECT_EQ(parse_run_file(good, folder + "/run.yaml", {}).settings.output.file, folder + "/b.h5");
  }
}

}  // namespace
}  // namespace annulus::runfile
