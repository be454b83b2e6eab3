// Command lines become options. Numbers are read as in a run file, and a refusal says what was expected.
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

/// The value of the option with this name, as text (Option::shown).
std::string shown(const CommandLine& line, const std::string& name) {
  for (const Option& option : line.verb.value().options) {
    if (option.name == name) return option.shown();
  }
  return "no option " + name;
}

/// What the parser writes to stderr when it refuses these words; checks that its exit status is 2.
std::string refusal(const Words& words) {
  testing::internal::CaptureStderr();
  const CommandLine line = parse(words);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(line.verb) << testing::PrintToString(words);
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
  EXPECT_EQ(line.verb.value().name, "generate");
  const std::vector<std::pair<std::string, std::string>> expected{
      {"--output", "x.h5"},   {"--sequence", "8"},   {"--heads", "4"},
      {"--kv-heads", "2"},    {"--head-dim", "256"}, {"--batch", "3"},
      {"--dtype", "float16"}, {"--dout", ""},        {"--seed", "9223372036854775807"},
      {"--layer", ""}};
  for (const auto& [name, value] : expected) EXPECT_EQ(shown(line, name), value) << name;
  EXPECT_EQ(shown(parse(with(made, {"--layer", "64", "--biases"})), "--layer"), "64");
  EXPECT_EQ(shown(parse(with(made, {"--layer", "64", "--biases"})), "--biases"), "true");
  EXPECT_EQ(shown(parse({"verify", "r.yaml", "--rows", "12"}), "--rows"), "12");
  EXPECT_EQ(shown(parse({"plan", "r.yaml", "--ranks", "65536"}), "--ranks"), "65536");
  EXPECT_EQ(shown(parse({"run", "r.yaml", "--dry-run", "--ranks", "5"}), "--ranks"), "5");
}

TEST(CommandLine, DefaultsOfGenerate) {
  const CommandLine line = parse(made);
  const std::vector<std::pair<std::string, std::string>> expected{{"--kv-heads", "--heads"}, {"--head-dim", "64"},
                                                                  {"--batch", "1"},          {"--seed", "1"},
                                                                  {"--dtype", "float32"},    {"--overwrite", ""}};
  for (const auto& [name, value] : expected) EXPECT_EQ(shown(line, name), value) << name;
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
      {"--head-dim", made, "a whole number from 1 to 576"},
      {"--batch", made, any},
      {"--seed", made, "a whole number, 0 or more"},
      {"--layer", made, "a whole number from 1 to 1073741824"},
      {"--rows", {"verify", "r.yaml"}, any},
      {"--ranks", {"plan", "r.yaml"}, ranks},
      {"--ranks", {"run", "r.yaml", "--dry-run"}, ranks},
  };
  for (const auto& [name, others, expected] : options) {
    const std::string limit = expected.ends_with("or more") ? ", at most 9223372036854775807" : "";
    expect_refusal(with(others, {name, "9223372036854775808"}),
                   fmt::format("{}: found '9223372036854775808', expected {}{}\n", name, expected, limit));
    for (const std::string value : {"-1", "2.5", "1e3", " 8", "8x", ""}) {
      expect_refusal(with(others, {name, value}), fmt::format("{}: found '{}', expected {}\n", name, value, expected));
    }
    for (const std::string value : {"010", "0x10"}) {
      expect_refusal(
          with(others, {name, value}),
          fmt::format("{}: found '{}', expected {}; a leading 0 looks octal or hexadecimal", name, value, expected));
    }
  }
  expect_refusal(with(made, {"--head-dim", "577"}), "--head-dim: found '577'");
  expect_refusal(with(made, {"--batch", "0"}), "--batch: found '0'");
  expect_refusal({"plan", "r.yaml", "--ranks", "65537"}, "--ranks: found '65537'");
  EXPECT_TRUE(parse(with(made, {"--seed", "0"})).verb);
}

TEST(CommandLine, StorageTypes) {
  const std::string expected = "', expected one of float64, float32, float16, bfloat16";
  expect_refusal(with(made, {"--dtype", "bf16"}), "--dtype: found 'bf16" + expected + ", did you mean 'bfloat16'?");
  expect_refusal(with(made, {"--dtype", "half"}), "--dtype: found 'half" + expected + ", did you mean 'float16'?");
  expect_refusal(with(made, {"--dtype", "int8"}), "--dtype: found 'int8" + expected + "\n");
  EXPECT_EQ(shown(parse(with(made, {"--dtype", "bfloat16"})), "--dtype"), "bfloat16");
}

TEST(CommandLine, Verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  expect_refusal({}, fmt::format("the verb is missing, expected one of {}\n", fmt::join(names, ", ")));
  expect_refusal({"help"}, "there is no verb 'help', did you mean '--help'?");
  expect_refusal({"convert", "a.npz"}, "there is no verb 'convert', did you mean 'annulus-tools convert'?");
  expect_refusal({"my.yaml"}, "there is no verb 'my.yaml', did you mean 'run my.yaml'?");
  expect_refusal({"verfy", "my.yaml"}, "there is no verb 'verfy', did you mean 'verify'?");
  expect_refusal({"-n", "2", "run", "my.yaml"}, "there is no option '-n': the launcher decides");
  expect_refusal({"--dry-run", "run", "my.yaml"}, "there is no option '--dry-run'");
}

TEST(CommandLine, WordsAreLookedAtFirst) {
  expect_refusal({"run"}, "run: file is required, for example: mpirun -n 2 annulus run my.yaml --set");
  expect_refusal({"--"}, "");
  expect_refusal({"generate", "--heads", "2"}, "generate: --output is required, for example: annulus generate --out");
  expect_refusal({"run", "r.yaml", "--dryrun"}, "run: there is no option '--dryrun', did you mean '--dry-run'?");
  expect_refusal({"plan", "r.yaml", "s.yaml"}, "plan: 's.yaml' was not expected, there is a run file already");
  expect_refusal({"info", "--set", "a=b"}, "info: there is no option '--set'");
  expect_refusal({"run", "r.yaml", "--ranks", "4"},
                 "run --ranks requires --dry-run; ranks that compute are the launcher's: mpirun -n RANKS annulus run");
  const CommandLine line = parse({"run", "--set", "a.b=[1, 2]", "r.yaml", "--set=a.c=3"});
  EXPECT_EQ(shown(line, "file"), "r.yaml");
  EXPECT_EQ(shown(line, "--set"), "a.b=[1, 2] a.c=3");
  EXPECT_EQ(line.text, "annulus run --set a.b=[1, 2] r.yaml --set=a.c=3");
}

TEST(CommandLine, EveryVerbsHelpHasAnExampleAndItsOptions) {
  ASSERT_GE(verbs().size(), 7u);
  for (const Verb& verb : verbs()) {
    testing::internal::CaptureStdout();
    const CommandLine line = parse({verb.name, "--help"});
    const std::string help = testing::internal::GetCapturedStdout();
    EXPECT_FALSE(line.verb);
    EXPECT_EQ(line.status, 0);
    EXPECT_EQ(help.find(verb.does), 0u) << help;
    const std::size_t example = help.find("\nExample:\n");
    ASSERT_NE(example, std::string::npos) << help;
    EXPECT_NE(help.find("annulus " + verb.name, example), std::string::npos) << help;
    for (const Option& option : verb.options) {
      const std::size_t at = help.find("  " + option.name + " ");
      ASSERT_LT(at, example) << option.name << "\n" << help;
      EXPECT_LT(help.find(option.help, at), example) << option.name << "\n" << help;
      EXPECT_FALSE(option.help.empty()) << verb.name << " " << option.name;
    }
  }
}

// For a misspelt option every verb suggests one of its own options. Every option that takes a whole number refuses
// other text.
TEST(CommandLine, EveryVerbsOptionsAreKnownToTheComplaints) {
  int numbers = 0;
  for (const Verb& verb : verbs()) {
    for (const Option& option : verb.options) {
      if (!option.name.starts_with("--")) continue;
      const std::string misspelt = option.name + "x";
      expect_refusal({verb.name, misspelt},
                     fmt::format("{}: there is no option '{}', did you mean '", verb.name, misspelt));
      if (option.value != "N") continue;
      ++numbers;
      EXPECT_NE(option.take("1.5"), "") << verb.name << " " << option.name;
      EXPECT_EQ(option.take("1"), "") << verb.name << " " << option.name;
      EXPECT_EQ(option.shown(), "1") << verb.name << " " << option.name;
    }
  }
  EXPECT_GE(numbers, 10);
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
