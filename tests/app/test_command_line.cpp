// Words in, options out: every number as the run file reads it, and mistakes with what was expected.
#include "annulus/app/command_line.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace annulus::app {
namespace {

using Words = std::vector<std::string>;

CommandLine parse(Words words, bool speaks = true) {
  words.insert(words.begin(), "annulus");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_command_line(int(argv.size()), argv.data(), speaks);
}

/// What is said on stderr about words that are refused with status 2.
std::string refusal(const Words& words) {
  testing::internal::CaptureStderr();
  const CommandLine line = parse(words);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.verb, "") << testing::PrintToString(words);
  EXPECT_EQ(line.status, 2) << testing::PrintToString(words);
  EXPECT_EQ(said.find("annulus: error: "), 0u) << said;
  return said;
}
void expect_refusal(const Words& words, const std::string& says) {
  const std::string said = refusal(words);
  EXPECT_NE(said.find("error: " + says), std::string::npos) << said << "expected: " << says;
}

const Words made{"generate", "--output", "x.h5", "--sequence", "8", "--heads", "4"};
Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(CommandLine, NumbersGetToTheirOptions) {
  const CommandLine line = parse(with(made, {"--kv-heads", "2", "--head-dim", "256", "--batch=3", "--seed",
                                             "9223372036854775807", "--dtype", "Float16"}));
  EXPECT_EQ(line.verb, "generate");
  const core::Shape& shape = line.generate.what.shape;
  EXPECT_EQ(shape.sequence, 8);
  EXPECT_EQ(shape.heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.head_dim, 256);
  EXPECT_EQ(shape.batch, 3);
  EXPECT_EQ(line.generate.what.seed, std::uint64_t(INT64_MAX));
  EXPECT_EQ(line.generate.what.type, core::DType::float16);
  EXPECT_FALSE(line.generate.layer_width);
  EXPECT_EQ(parse(with(made, {"--layer", "64"})).generate.layer_width, 64);
  EXPECT_EQ(parse({"verify", "r.yaml", "--rows", "12"}).verify.rows, 12);
  EXPECT_EQ(parse({"plan", "r.yaml", "--ranks", "65536"}).plan.ranks, 65536);
  EXPECT_EQ(parse({"run", "r.yaml", "--dry-run", "--ranks", "5"}).run.ranks, 5);
}

TEST(CommandLine, DefaultsOfGenerate) {
  const GenerateOptions defaults;
  const GenerateOptions options = parse(made).generate;
  EXPECT_EQ(options.what.shape.kv_heads, 0);  // as many as heads
  EXPECT_EQ(options.what.shape.head_dim, 64);
  EXPECT_EQ(options.what.shape.batch, 1);
  EXPECT_EQ(options.what.seed, defaults.what.seed);
  EXPECT_EQ(options.what.type, core::DType::float32);
}

TEST(CommandLine, EveryNumberIsReadStrictly) {
  struct Option {
    std::string name;
    Words others;
    std::string expected;
  };
  const std::string any = "a whole number, 1 or more", ranks = "a whole number from 1 to 65536";
  const std::vector<Option> options{
      {"--sequence", {"generate", "--output", "x.h5", "--heads", "4"}, any},
      {"--heads", {"generate", "--output", "x.h5", "--sequence", "4"}, any},
      {"--kv-heads", made, any},
      {"--head-dim", made, "a whole number from 1 to 256"},
      {"--batch", made, any},
      {"--seed", made, "a whole number, 0 or more"},
      {"--layer", made, "a whole number from 1 to 1073741824"},
      {"--rows", {"verify", "r.yaml"}, any},
      {"--ranks", {"plan", "r.yaml"}, ranks},
      {"--ranks", {"run", "r.yaml", "--dry-run"}, ranks},
  };
  for (const auto& [name, others, expected] : options) {
    for (const std::string value : {"-1", "2.5", "1e3", " 8", "8x", "", "99999999999999999999"}) {
      expect_refusal(with(others, {name, value}), fmt::format("{}: found '{}', expected {}\n", name, value, expected));
    }
    for (const std::string value : {"010", "0x10"}) {
      expect_refusal(
          with(others, {name, value}),
          fmt::format("{}: found '{}', expected {}; a leading 0 looks octal or hexadecimal", name, value, expected));
    }
  }
  expect_refusal(with(made, {"--head-dim", "257"}), "--head-dim: found '257'");
  expect_refusal(with(made, {"--batch", "0"}), "--batch: found '0'");
  expect_refusal({"plan", "r.yaml", "--ranks", "65537"}, "--ranks: found '65537'");
  EXPECT_EQ(parse(with(made, {"--seed", "0"})).generate.what.seed, 0u);
}

TEST(CommandLine, StorageTypes) {
  const std::string expected = "', expected one of float64, float32, float16, bfloat16";
  expect_refusal(with(made, {"--dtype", "bf16"}), "--dtype: found 'bf16" + expected + ", did you mean 'bfloat16'?");
  expect_refusal(with(made, {"--dtype", "half"}), "--dtype: found 'half" + expected + ", did you mean 'float16'?");
  expect_refusal(with(made, {"--dtype", "int8"}), "--dtype: found 'int8" + expected + "\n");
  EXPECT_EQ(parse(with(made, {"--dtype", "bfloat16"})).generate.what.type, core::DType::bfloat16);
}

TEST(CommandLine, Verbs) {
  expect_refusal({}, "there is no verb, expected one of run, generate, verify, plan, train, list, info");
  expect_refusal({"help"}, "there is no verb 'help', did you mean '--help'?");
  expect_refusal({"my.yaml"}, "there is no verb 'my.yaml', did you mean 'run my.yaml'?");
  expect_refusal({"verfy", "my.yaml"}, "there is no verb 'verfy', did you mean 'verify'?");
  expect_refusal({"-n", "2", "run", "my.yaml"}, "there is no option '-n': the launcher decides");
  expect_refusal({"--dry-run", "run", "my.yaml"}, "there is no option '--dry-run'");
}

TEST(CommandLine, WordsAreLookedAtFirst) {
  expect_refusal({"run", "r.yaml", "--dryrun"}, "run: there is no option '--dryrun', did you mean '--dry-run'?");
  expect_refusal({"plan", "r.yaml", "s.yaml"}, "plan: 's.yaml' was not expected, one run file is");
  expect_refusal({"info", "--set", "a=b"}, "info: there is no option '--set'");
  expect_refusal({"run", "r.yaml", "--ranks", "4"},
                 "run --ranks requires --dry-run; ranks that compute are the launcher's: mpirun -n RANKS annulus run");
  const CommandLine line = parse({"run", "--set", "a.b=[1, 2]", "r.yaml", "--set=a.c=3"});
  EXPECT_EQ(line.run.run_file, "r.yaml");
  EXPECT_EQ(line.run.overrides, (Words{"a.b=[1, 2]", "a.c=3"}));
  EXPECT_EQ(line.run.command_line, "annulus run --set a.b=[1, 2] r.yaml --set=a.c=3");
}

TEST(CommandLine, EveryVerbsHelpHasAnExample) {
  for (const std::string verb : {"run", "generate", "verify", "plan", "train", "list", "info"}) {
    testing::internal::CaptureStdout();
    const CommandLine line = parse({verb, "--help"});
    const std::string help = testing::internal::GetCapturedStdout();
    EXPECT_EQ(line.verb, "");
    EXPECT_EQ(line.status, 0);
    const std::size_t example = help.find("\nExample:\n");
    ASSERT_NE(example, std::string::npos) << help;
    EXPECT_NE(help.find("annulus " + verb, example), std::string::npos) << help;
  }
}

TEST(CommandLine, OneRankSpeaks) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"run"}, false).status, 2);
  EXPECT_EQ(parse({"run", "--dryrun"}, false).status, 2);
  EXPECT_EQ(parse({"run", "--help"}, false).status, 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace annulus::app
