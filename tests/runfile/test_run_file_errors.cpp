// Every mistake in a run file is found, and its message gives the exact line and column.
#include <gtest/gtest.h>

#include <fstream>

#include "annulus/runfile/run_file.hpp"
#include "annulus/runfile/user_files.hpp"
#include "support/scratch.hpp"
#include "support/table_words.hpp"

namespace annulus::runfile {
namespace {

/// The message with which this text is refused; a test failure and "" if it is accepted.
std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_run_file(text, "run.yaml", overrides);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    return error.what();
  }
  ADD_FAILURE() << "accepted:\n" << text;
  return "";
}

struct Bad {
  const char* name;
  std::string text;
  const char* place;  ///< LINE:COLUMN
  std::string says;   ///< part of the message
};
std::ostream& operator<<(std::ostream& to, const Bad& bad) { return to << bad.name; }

class BadRunFile : public testing::TestWithParam<Bad> {};

TEST_P(BadRunFile, IsRefusedWithItsPlace) {
  const std::string message = error_of(GetParam().text);
  const std::string start = std::string("run.yaml:") + GetParam().place + ": ";
  EXPECT_EQ(message.substr(0, start.size()), start) << message;
  EXPECT_NE(message.find(GetParam().says), std::string::npos)
      << message << "\nexpected to contain: " << GetParam().says;
}

const std::string good = "input: {file: a.h5}\noutput: {file: b.h5}\n";
std::string attention(const std::string& lines) { return good + "attention:\n" + lines; }
std::string generate(const std::string& entries) {
  return "input: {generate: {" + entries + "}}\noutput: {file: b.h5}\n";
}

/// Nine levels of ten aliases each: a billion values in a short text.
std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text +=
        fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Yaml, BadRunFile,
    testing::Values(Bad{"Empty", "", "1:1", "empty"},                                                //
                    Bad{"OnlyComments", "# nothing\n# at all\n", "1:1", "empty"},                    //
                    Bad{"AList", "- input\n- output\n", "1:1", "a run file: found a list"},          //
                    Bad{"AWord", "input\n", "1:1", "a run file: found 'input'"},                     //
                    Bad{"Tab", "input:\n\tfile: a.h5\n", "2:1", "a tab in the indentation"},         //
                    Bad{"UnclosedList", attention("  segments: [1, 2\n"), "5:1", "not valid YAML"},  //
                    Bad{"UnclosedSection", "input: {file: a.h5\n", "2:1", "not valid YAML"},         //
                    Bad{"Nesting", "input: " + std::string(5000, '['), "1:1", "nested too deeply"},  //
                    Bad{"Duplicate", good + "input: {file: c.h5}\n", "3:1",
                        "duplicate key 'input', the first is at run.yaml:1:1"},
                    Bad{"NestedDuplicate", "input:\n  q: /a\n  file: a.h5\n  q: /b\n", "4:3",
                        "duplicate key 'q', the first is at run.yaml:2:3"},
                    Bad{"DuplicateInUnknown", "input: {file: a.h5, x: {y: 1, y: 2}}\n", "1:31", "duplicate key 'y'"},
                    Bad{"SecondDocument", good + "---\ninput: {file: c.h5}\n", "4:1", "second YAML document"},
                    Bad{"SecondEmptyDocument", good + "---\n", "3:1", "second YAML document"},
                    Bad{"MergeKey", "x: &x {file: a.h5}\ninput:\n  <<: *x\n", "3:3", "merge keys (<<)"},
                    Bad{"AliasBomb", alias_bomb(), "1:37", "more than 10000 values"},
                    Bad{"AliasOfItself", "input: &a [*a]\n", "1:8", "nested too deeply; an alias inside itself?"},
                    Bad{"Tag", good + "attention: {causal: !!bool true}\n", "3:21", "the tag tag:yaml.org,2002:bool"},
                    Bad{"KeyIsAList", "? [a, b]\n: 1\n", "1:3", "a key must be a word"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Keys, BadRunFile,
    testing::Values(Bad{"UnknownSection", good + "atention: {causal: true}\n", "3:1",
                        "unknown key 'atention', did you mean 'attention'?"},
                    Bad{"UnknownKey", attention("  cuasal: true\n"), "4:3",
                        "unknown key 'cuasal' in attention, did you mean 'causal'?"},
                    Bad{"UnknownInGenerate", generate("sequence: 8, haeds: 2"), "1:33",
                        "unknown key 'haeds' in input.generate, did you mean 'heads'?"},
                    Bad{"NothingNear", attention("  frobnicate: 1\n"), "4:3", "unknown key 'frobnicate' in attention"},
                    Bad{"NearBackward", good + "compute: {backwards: true}\n", "3:11",
                        "unknown key 'backwards' in compute, did you mean 'backward'?"},
                    Bad{"SectionIsAWord", good + "attention: 5\n", "3:12",
                        "attention: found '5', expected a section with the keys semantics"},
                    Bad{"SectionIsAList", good + "attention: [1]\n", "3:12", "attention: found a list"},
                    Bad{"SectionIsNothing", good + "attention:\n", "3:1", "attention: found nothing"},
                    Bad{"KeyIsASection", attention("  causal: {a: 1}\n"), "4:11",
                        "attention.causal: found a section, expected true or false"},
                    Bad{"InputMissing", "output: {file: b.h5}\n", "1:1", "input.file (or input.generate) is missing"},
                    Bad{"InputFileMissing", "output: {file: b.h5}\ninput:\n  q: /q\n", "2:1",
                        "input.file (or input.generate) is missing"},
                    Bad{"OutputMissing", "input: {file: a.h5}\n", "1:1", "output.file is missing"},
                    Bad{"OutputFileMissing", "input: {file: a.h5}\noutput: {overwrite: true}\n", "2:1",
                        "output.file is missing"},
                    Bad{"SequenceMissing", generate("heads: 2"), "1:9", "input.generate.sequence is missing"},
                    Bad{"HeadsMissing", generate("sequence: 2"), "1:9", "input.generate.heads is missing"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Values, BadRunFile,
    testing::Values(
        Bad{"NoValue", attention("  causal:\n"), "4:3", "attention.causal: found nothing, expected true or false"},
        Bad{"Null", attention("  scale: null\n"), "4:3", "attention.scale: found nothing"},
        Bad{"Tilde", "input: {file: ~}\noutput: {file: b.h5}\n", "1:9", "input.file: found nothing, expected a name"},
        Bad{"EmptyText", "input: {file: \"\"}\noutput: {file: b.h5}\n", "1:15", "input.file: found the quoted text ''"},
        Bad{"NoFile", "input: {file: none}\noutput: {file: b.h5}\n", "1:15",
            "input.file: found 'none', expected a path; ./none for a file of this name"},
        Bad{"NoCheckpoint", good + "layer: {heads: 1}\ntrain: {steps: 1, rate: 1, checkpoint: none}\n", "4:40",
            "train.checkpoint: found 'none', expected a path"},
        Bad{"PathIsAList", "input: {file: [a]}\noutput: {file: b.h5}\n", "1:15", "input.file: found a list"},
        Bad{"Yes", attention("  causal: yes\n"), "4:11", "found 'yes', expected true or false, did you mean 'true'?"},
        Bad{"On", attention("  causal: on\n"), "4:11", "found 'on', expected true or false, did you mean 'true'?"},
        Bad{"CapitalFalse", attention("  causal: False\n"), "4:11", "did you mean 'false'?"},
        Bad{"AutoFlag", good + "compute: {reproducible: auto}\n", "3:25",
            "compute.reproducible: found 'auto', expected true or false; leave the key out for its default"},
        Bad{"One", attention("  causal: 1\n"), "4:11", "found '1', expected true or false"},
        Bad{"CapitalTrue", attention("  causal: True\n"), "4:11",
            "found 'True', expected true or false, did you mean 'true'?"},
        Bad{"QuotedTrue", attention("  causal: 'true'\n"), "4:11",
            "found the quoted text 'true', expected true or false, without quotes"},
        Bad{"Octal", attention("  segments: [010]\n  dilations: [1]\n"), "4:14",
            "found '010', expected all, or a whole number from 1 to 1000000000000; a leading 0 looks octal"},
        Bad{"Hexadecimal", attention("  segments: [0x10]\n  dilations: [1]\n"), "4:14", "found '0x10'"},
        Bad{"OctalNumber", attention("  scale: 00.5\n"), "4:10", "a leading 0 looks octal"},
        Bad{"Exponent", attention("  segments: [1e3]\n  dilations: [1]\n"), "4:14",
            "found '1e3', expected all, or a whole number"},
        Bad{"Fraction", good + "distribution: {local_below: 1.5}\n", "3:29",
            "found '1.5', expected auto, or a whole number"},
        Bad{"QuotedNumber", good + "distribution: {local_below: '12'}\n", "3:29",
            "found the quoted text '12', expected auto, or a whole number"},
        Bad{"Underscore", good + "distribution: {local_below: 1_000}\n", "3:29", "found '1_000'"},
        Bad{"Letters", good + "distribution: {local_below: 12abc}\n", "3:29", "found '12abc'"},
        Bad{"Sign", good + "distribution: {local_below: -}\n", "3:29", "expected auto, or a whole number"},
        Bad{"Negative", good + "distribution: {local_below: -1}\n", "3:29",
            "found '-1', expected auto, or a whole number from 0"},
        Bad{"TooLarge", good + "distribution: {local_below: 99999999999999999999}\n", "3:29",
            "expected auto, or a whole number"},
        Bad{"Infinity", attention("  scale: .inf\n"), "4:10",
            "found '.inf', expected auto, or a finite number above 0"},
        Bad{"InfinityWord", attention("  scale: inf\n"), "4:10", "found 'inf'"},
        Bad{"NotANumber", attention("  scale: .nan\n"), "4:10", "found '.nan'"},
        Bad{"NanWord", attention("  scale: nan\n"), "4:10", "found 'nan'"},
        Bad{"Overflow", attention("  scale: 1e999\n"), "4:10", "found '1e999'"},
        Bad{"ZeroScale", attention("  scale: 0\n"), "4:10", "found '0', expected auto, or a finite number above 0"},
        Bad{"NegativeScale", attention("  scale: -0.5\n"), "4:10", "found '-0.5'"},
        Bad{"QuotedSlope", attention("  bias: {alibi: [0.5, '0']}\n"), "4:23",
            "attention.bias: alibi: found the quoted text '0', expected a finite number above 0"},
        Bad{"ScaleWord", attention("  scale: atuo\n"), "4:10", "found 'atuo'"},
        Bad{"Statistic", "input: {file: a.h5}\noutput: {file: b.h5, statistics: [top, entorpy]}\n", "2:40",
            "found 'entorpy', expected one of entropy, received, top, did you mean 'entropy'?"},
        Bad{"StatisticTwice", "input: {file: a.h5}\noutput: {file: b.h5, statistics: [top, top]}\n", "2:40",
            "output.statistics: top occurs twice"},
        Bad{"StatisticAlone", "input: {file: a.h5}\noutput: {file: b.h5, statistics: top}\n", "2:34",
            "found 'top', expected a list, for example [top]"},
        Bad{"HintsAsWord", "input: {file: a.h5}\noutput: {file: b.h5, hints: fast}\n", "2:29",
            "found 'fast', expected hints by name, like {striping_factor: 8}, or {}"},
        Bad{"HintsInHints", "input: {file: a.h5}\noutput: {file: b.h5, hints: {a: {b: 1}}}\n", "2:33",
            "output.hints.a: found a section, expected a number or text"},
        Bad{"HintTooLong", "input: {file: a.h5}\noutput: {file: b.h5, hints: {" + std::string(300, 'x') + ": 1}}\n",
            "2:30", "this MPI takes names of "},
        Bad{"Alignment", "input: {file: a.h5}\noutput: {file: b.h5, alignment: 0}\n", "2:33", "found '0', expected"},
        Bad{"TopKeys", "input: {file: a.h5}\noutput: {file: b.h5, statistics: [top], top_keys: 1025}\n", "2:51",
            "found '1025', expected a whole number from 1 to 1024"},
        Bad{"Semantics", attention("  semantics: longnte\n"), "4:14",
            "one of " + test::words_of(pattern::semantics_table) + ", did you mean 'longnet'?"},
        Bad{"Precision", good + "compute: {precision: double}\n", "3:22",
            "expected one of auto, float32, float64, bfloat16, tf32, 3xtf32, 3xbfloat16, 6xbfloat16, did you mean "
            "'float64'?"},
        Bad{"Backend", good + "compute: {backend: cuddn}\n", "3:20",
            "found 'cuddn', expected one of auto, host, device, cudnn, did you mean 'cudnn'?"},
        Bad{"Tf32Precision", good + "compute: {precision: tf23}\n", "3:22", "found 'tf23', expected one of auto, "},
        Bad{"Partition", good + "distribution: {partition: zigzg}\n", "3:27",
            "expected one of auto, " + test::words_of(pattern::partition_table) + ", did you mean 'zigzag'?"},
        Bad{"BlockSize", good + "distribution: {partition: block_cyclic, block_size: 0}\n", "3:53", "found '0'"},
        Bad{"NoneInCapitals", good + "distribution: {machine: None}\n", "3:25", "found 'None', expected none"},
        Bad{"BlockSizeAlone", good + "distribution: {block_size: 8}\n", "3:16", "needs partition: block_cyclic"},
        Bad{"StallTimeout", good + "distribution: {stall_timeout: 0}\n", "3:31",
            "found '0', expected a finite number above 0"},
        Bad{"GpuAware", good + "distribution: {gpu_aware: true}\n", "3:27",
            "expected one of auto, on, off, did you mean 'on'?"},
        Bad{"Transport", good + "distribution: {transport: ncll}\n", "3:27",
            "expected one of mpi, nccl, did you mean 'nccl'?"},
        Bad{"UlyssesRanks", good + "distribution: {strategy: hybrid, ulysses_ranks: 0}\n", "3:49", "found '0'"},
        Bad{"UlyssesRanksAlone", good + "distribution: {strategy: ring, ulysses_ranks: 2}\n", "3:32",
            "needs strategy hybrid, found ring"},
        Bad{"DType", generate("sequence: 4, heads: 1, dtype: float46"), "1:50", "did you mean 'float64'?"},
        Bad{"OtherDType", generate("sequence: 4, heads: 1, dtype: bf16"), "1:50",
            "found 'bf16', expected one of float64, float32, float16, bfloat16, did you mean 'bfloat16'?"},
        Bad{"Seed", generate("sequence: 4, heads: 1, seed: -1"), "1:49", "input.generate.seed: found '-1'"},
        Bad{"ZeroRows", generate("sequence: 0, heads: 1"), "1:30", "input.generate.sequence: found '0'"},
        Bad{"HeadDim", generate("sequence: 4, heads: 1, head_dim: 577"), "1:53",
            "expected a whole number from 1 to 576"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Contradictions, BadRunFile,
    testing::Values(
        Bad{"SegmentsAlone", attention("  segments: [4]\n"), "4:3",
            "attention.segments is given without attention.dilations"},
        Bad{"DilationsAlone", attention("  dilations: [4]\n"), "4:3",
            "attention.dilations is given without attention.segments"},
        Bad{"Lengths", attention("  segments: [4, 8]\n  dilations: [1, 2, 3]\n"), "5:3",
            "attention.dilations has 3, attention.segments (run.yaml:4:3) has 2"},
        Bad{"MoreSegments", attention("  segments: [4, 8]\n  dilations: [1]\n"), "5:3",
            "attention.dilations has 1, attention.segments (run.yaml:4:3) has 2"},
        Bad{"SegmentIsNoList", attention("  segments: 4\n  dilations: [1]\n"), "4:13",
            "expected a list, for example [4]"},
        Bad{"NoSegments", attention("  segments: []\n  dilations: []\n"), "4:13", "the list is empty"},
        Bad{"ZeroSegment", attention("  segments: [4, 0]\n  dilations: [1, 1]\n"), "4:17",
            "attention.segments: found '0'"},
        Bad{"SegmentWord", attention("  segments: [al]\n  dilations: [1]\n"), "4:14", "attention.segments: found 'al'"},
        Bad{"SegmentIsAList", attention("  segments: [[4]]\n  dilations: [1]\n"), "4:14",
            "attention.segments: found a list, expected rows, all, or {window: w | [left, right], first: f}"},
        Bad{"WindowMisspelt", attention("  segments: [{windw: 4}]\n  dilations: [1]\n"), "4:15",
            "unknown key 'windw' in attention.segments, did you mean 'window'?, expected {window: w | [left, right]"},
        Bad{"WindowOfNothing", attention("  segments: [{first: 3}]\n  dilations: [1]\n"), "4:14",
            "attention.segments: found a section, expected {window: w | [left, right], first: f}"},
        Bad{"WindowOfNoRow", attention("  segments: [{window: 0}]\n  dilations: [1]\n"), "4:23",
            "attention.segments: window: found '0', expected"},
        Bad{"WindowOfThree", attention("  segments: [{window: [1, 2, 3]}]\n  dilations: [1]\n"), "4:23",
            "attention.segments: window: a list of 3 entries, expected a number of rows, or [left, right]"},
        Bad{"WindowBelowZero", attention("  segments: [{window: [3, -1]}]\n  dilations: [1]\n"), "4:27",
            "attention.segments: window: found '-1', expected"},
        Bad{"FirstWord", attention("  segments: [{window: 3, first: all}]\n  dilations: [1]\n"), "4:33",
            "attention.segments: first: found 'all', expected"},
        Bad{"FirstAndDilation", attention("  segments: [8, {window: 4, first: 2}]\n  dilations: [1, 2]\n"), "4:3",
            "attention.segments: pair 2, {window: [3, 0], first: 2}: first needs dilation 1, which is 2"},
        Bad{"WindowOfTorchscale", attention("  segments: [{window: 4}]\n  dilations: [1]\n  semantics: torchscale\n"),
            "4:3", "attention.segments: pair 1, {window: [3, 0]}: torchscale has no windows, expected rows or all"},
        Bad{"ZeroDilation", attention("  segments: [4]\n  dilations: [0]\n"), "5:15", "attention.dilations: found '0'"},
        Bad{"AllDilation", attention("  segments: [4]\n  dilations: [all]\n"), "5:15",
            "attention.dilations: found 'all'"},
        Bad{"FileAndGenerate", "input:\n  file: a.h5\n  generate: {sequence: 4, heads: 1}\noutput: {file: b.h5}\n",
            "3:3", "input.generate and input.file (run.yaml:2:3) exclude each other"},
        Bad{"DocumentsOfNoFile", "input:\n  generate: {sequence: 4, heads: 1}\n  documents: /d\noutput: {file: b.h5}\n",
            "3:3", "input.documents needs input.file"},
        Bad{"AxesOfNoFile", "input:\n  generate: {sequence: 4, heads: 1}\n  axes: bhsd\noutput: {file: b.h5}\n", "3:3",
            "input.axes: bhsd needs input.file"},
        Bad{"AxesOfNoOrder", "input:\n  file: a.h5\n  axes: sbhd\noutput: {file: b.h5}\n", "3:9",
            "input.axes: found 'sbhd', expected one of bshd, bhsd"},
        Bad{"DlseOfNoFile",
            "input:\n  generate: {sequence: 4, heads: 1}\n  dlse: /d\ncompute: {backward: true}\noutput: {file: "
            "b.h5}\n",
            "3:3", "input.dlse needs input.file"},
        Bad{"DlseWithoutBackward", "input:\n  file: a.h5\n  dlse: /dlse\noutput: {file: b.h5}\n", "3:3",
            "input.dlse needs compute.backward: true, which is false"},
        Bad{"BackwardIsAWord", good + "compute: {backward: yes}\n", "3:21", "found 'yes', expected true or false"},
        Bad{"KvHeads", generate("sequence: 4, heads: 4, kv_heads: 3"), "1:43",
            "input.generate.kv_heads: 3 does not divide the 4 heads"},
        Bad{"TooManyBytes", generate("sequence: 1000000000000, heads: 1000000, batch: 10"), "1:20",
            "input.generate.sequence: 6.4e+20 numbers per tensor"},
        Bad{"OutputIsInput", "input: {file: a.h5}\noutput: {file: x/../a.h5}\n", "2:10",
            "output.file is the file of input.file"},
        Bad{"TopKeysOfNoTop", "input: {file: a.h5}\noutput: {file: b.h5, statistics: [entropy], top_keys: 4}\n", "2:45",
            "output.top_keys needs top among output.statistics"},
        Bad{"StatisticsOfALayer",
            "input: {file: a.h5}\noutput: {file: b.h5, statistics: [entropy]}\nlayer: {heads: 4}\n", "2:22",
            "output.statistics: a run with a section layer makes none"},
        Bad{"LayerHeads", good + "layer: {x: /x}\n", "3:1", "layer.heads is missing"},
        Bad{"LayerKvHeads", good + "layer: {heads: 4, kv_heads: 3}\n", "3:19", "3 does not divide the 4 heads"},
        Bad{"LayerOfNoFile", generate("sequence: 4, heads: 1") + "layer: {heads: 4}\n", "1:9",
            "input.generate makes no layer"},
        Bad{"LayerAndQ", "input: {file: a.h5, q: /q}\noutput: {file: b.h5}\nlayer: {heads: 4}\n", "1:21",
            "input.q is not read with a section layer"},
        Bad{"RopeIsANumber", good + "layer: {heads: 4, rope: 10000}\n", "3:25",
            "layer.rope: found '10000', expected none, or {base: 10000}"},
        Bad{"RopeWithoutBase", good + "layer: {heads: 4, rope: {}}\n", "3:25", "expected none, or {base: 10000}"},
        Bad{"RopeKey", good + "layer: {heads: 4, rope: {bas: 3}}\n", "3:26",
            "unknown key 'bas' in layer.rope, did you mean 'base'?"},
        Bad{"RopeOtherKey", good + "layer: {heads: 4, rope: {base: 3, angle: 1}}\n", "3:35",
            "unknown key 'angle' in layer.rope"},
        Bad{"RopeBaseOfOne", good + "layer: {heads: 4, rope: {base: 1}}\n", "3:32",
            "layer.rope.base: found '1', expected a number above 1"},
        Bad{"RopeBase", good + "layer: {heads: 4, rope: {base: -3}}\n", "3:32", "layer.rope.base: found '-3'"},
        Bad{"Sharding", good + "layer: {heads: 4, sharding: fdsp}\n", "3:29", "did you mean 'fsdp'?"},
        Bad{"TrainAlone", good + "train: {steps: 3, rate: 1, checkpoint: c.h5}\n", "3:1",
            "train needs a section layer"},
        Bad{"TrainSteps", good + "layer: {heads: 4}\ntrain: {rate: 1, checkpoint: c.h5}\n", "4:1",
            "train.steps is missing"},
        Bad{"TrainRate", good + "layer: {heads: 4}\ntrain: {steps: 1, rate: 0, checkpoint: c.h5}\n", "4:25",
            "train.rate: found '0'"},
        Bad{"TrainCheckpoint", good + "layer: {heads: 4}\ntrain: {steps: 1, rate: 1}\n", "4:1",
            "train.checkpoint is missing"},
        Bad{"CheckpointIsOutput", good + "layer: {heads: 4}\ntrain: {steps: 1, rate: 1, checkpoint: x/../b.h5}\n",
            "4:28", "train.checkpoint is the file of output.file"},
        Bad{"OutputIsPreviousCheckpoint",
            "input: {file: a.h5}\nlayer: {heads: 4}\ntrain: {steps: 1, rate: 1, checkpoint: c.h5}\n"
            "output: {file: x/../c.h5.previous}\n",
            "3:28", "c.h5.previous of output.file differ only by .previous, which annulus adds"},
        Bad{"ReportIsPart", good.substr(0, good.size() - 2) + ", report: b.h5.part}\n", "2:22",
            "b.h5 of output.file differ only by .part, which annulus adds"},
        Bad{"ReportIsOutput", good.substr(0, good.size() - 2) + ", report: b.h5}\n", "2:22",
            "output.report is the file of output.file"}),
    [](const auto& info) { return info.param.name; });

TEST(RunFileOverrides, AreNamedInErrors) {
  EXPECT_EQ(error_of(good, {"attention.causal=yes"}),
            "--set attention.causal=yes: attention.causal: found 'yes', expected true or false, did you mean 'true'?");
  EXPECT_EQ(error_of(good, {"attention.cusal=true"}),
            "--set attention.cusal=true: unknown key 'cusal' in attention, did you mean 'causal'?");
  EXPECT_EQ(error_of(good, {"atention.causal=true"}),
            "--set atention.causal=true: unknown key 'atention', did you mean 'attention'?");
  EXPECT_EQ(error_of(good, {"attention.causal.x=true"}),
            "--set attention.causal.x=true: attention.causal: found a section, expected true or false");
  EXPECT_EQ(error_of(good, {"input.file.x=1"}),
            "--set input.file.x=1: expected a section before '.x', found 'a.h5' (run.yaml:1:15)");
  EXPECT_EQ(
      error_of(good, {"attention.segments=[4, all]", "attention.segments.0=5"}),
      "--set attention.segments.0=5: expected a section before '.0', found a list (--set attention.segments=[4, all])");
  EXPECT_EQ(error_of(good, {"attention.causal"}), "--set attention.causal: expected --set section.key=value");
  EXPECT_EQ(error_of(good, {"output.file=take #2.h5"}),
            "--set output.file=take #2.h5: YAML ignores '#2.h5' as a comment; if it belongs to the value, write --set "
            "'output.file=\"take #2.h5\"'");
  EXPECT_EQ(error_of(good, {"=3"}), "--set =3: expected --set section.key=value");
  EXPECT_EQ(error_of(good, {"attention.scale="}),
            "--set attention.scale=: attention.scale: found nothing, expected auto, or a finite number above 0");
  EXPECT_EQ(error_of(good, {"attention.segments=[4"}).find("--set attention.segments=[4: not valid YAML"), 0u);
  EXPECT_EQ(error_of(good, {"attention={causal: true, causal: false}"})
                .find("--set attention={causal: true, causal: "
                      "false}: duplicate key 'causal'"),
            0u);
  // Contradictions between the file and an override name both.
  EXPECT_EQ(error_of(good, {"attention.segments=[4]"}),
            "--set attention.segments=[4]: attention.segments is given without attention.dilations: one entry of each "
            "per pair");
  const std::string both = error_of(good, {"input.generate.sequence=4", "input.generate.heads=1"});
  EXPECT_NE(both.find("input.generate and input.file (run.yaml:1:9) exclude each other"), std::string::npos) << both;
}

TEST(RunFileOverrides, OfAWordInPlaceOfASectionAreRefused) {
  EXPECT_EQ(error_of("input: 5\noutput: {file: b.h5}\n", {"input.file=a.h5"}),
            "--set input.file=a.h5: expected a section before '.file', found '5' (run.yaml:1:8)");
}

TEST(RunFilePaths, AboveALinkIsAboveTheFolderToWhichItLeads) {
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder / "sub/real");
  std::filesystem::create_directory_symlink("sub/real", folder / "link");
  const std::string text = "input: {file: ../a.h5}\noutput: {file: b.h5}\n";
  const RunFile run = parse_run_file(text, folder / "link/run.yaml", {});
  EXPECT_EQ(run.settings.input.file, std::filesystem::canonical(folder / "sub") / "a.h5");
  EXPECT_EQ(run.settings.output.file, folder / "link/b.h5") << "a link that is not left stays as it is";
  EXPECT_EQ(parse_run_file(text, folder / "link/../run.yaml", {}).settings.output.file,
            std::filesystem::canonical(folder / "sub") / "b.h5");
  std::filesystem::create_directory_symlink("sub", folder / "named");
  EXPECT_EQ(parse_run_file(text, folder / "named/real/../run.yaml", {}).settings.output.file, folder / "named/b.h5")
      << "a link that is not left stays as it is, also if the path has ..";
}

TEST(RunFilePaths, DotsAtTheEndAreResolvedToo) {
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder / "sub/real");
  std::filesystem::create_directory_symlink("sub/real", folder / "link");
  const std::string sub = std::filesystem::canonical(folder / "sub").string();
  for (const char* end : {"..", "../", "../.", "./.."}) {
    EXPECT_EQ(without_dots(folder / "link/" + end).string(), sub + "/") << end;
    EXPECT_EQ(without_dots(folder / "sub/" + end).string(), folder / "") << end;
  }
}

TEST(RunFilePaths, OneFileUnderTwoNamesIsOneFile) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "real.h5") << "x";
  std::filesystem::create_symlink(folder / "real.h5", folder / "link.h5");
  std::filesystem::create_hard_link(folder / "real.h5", folder / "hard.h5");
  for (const char* name : {"link.h5", "hard.h5"}) {
    const std::string text = fmt::format("input: {{file: real.h5}}\noutput: {{file: {}}}\n", name);
    try {
      parse_run_file(text, folder / "run.yaml", {});
      ADD_FAILURE() << name << " accepted";
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find(":2:10: output.file is the file of input.file"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace annulus::runfile
