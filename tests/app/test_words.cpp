// Mistakes in a command line: each message says what to write instead.
#include "annulus/app/command_line.hpp"

#include <gtest/gtest.h>

namespace annulus::app {
namespace {

using Words = std::vector<std::string>;

std::string complaint(const std::string& name, const Words& words) {
  for (const Verb& verb : verbs()) {
    if (verb.name == name) return complaint_of_words(name, verb.options, words);
  }
  return "there is no verb " + name;
}

TEST(Words, RightOnesPass) {
  const std::vector<Words> lines{
      {},
      {"r.yaml"},
      {"r.yaml", "--dry-run", "--ranks", "4"},
      {"--dry-run", "r.yaml", "--ranks=4", "-h"},
      {"--set", "a.b=1", "r.yaml", "--set=a.c=[1, 2]"},
      {"r.yaml", "--set", "a.b=[1, 2]", "--set", "a.c={x: 1}", "--set", "a.d=x=y"},
      {"r.yaml", "--set", "a.b="},  // refused later, by the reader of the run file
      {"r.yaml", "--set"},          // refused later, by the parser
      {"r.yaml", "--ranks", "--dry-run"},
      {"r.yaml", "--set", "a.b=[1,"},  // not valid YAML, and no next word completes it
      {"r.yaml", "--", "--anything"},
      {"runs/n=8/r.yaml", "--set", "a.b=1"},
      {"n=8.yaml", "--set", "a.b=1"},
  };
  for (const Words& line : lines) EXPECT_EQ(complaint("run", line), "") << testing::PrintToString(line);
  EXPECT_EQ(complaint("generate", {"--seed", "-1", "--output", "x.h5", "--dout"}), "");
}

TEST(Words, AListCutByTheShell) {
  const std::string cut = "run: --set attention.segments=[128,: the shell cut this at a space, put it in quotes: ";
  EXPECT_EQ(complaint("run", {"r.yaml", "--set", "attention.segments=[128,", "all]"}),
            cut + "--set 'attention.segments=[128, all]'");
  EXPECT_EQ(complaint("run", {"--set", "attention.segments=[128,", "512,", "all]", "r.yaml"}),
            cut + "--set 'attention.segments=[128, 512, all]'");
  EXPECT_EQ(complaint("run", {"r.yaml", "--set=attention.segments=[128,", "all]"}),
            cut + "--set 'attention.segments=[128, all]'");
}

TEST(Words, ASettingWithBlanks) {
  const std::string needs = ": expected KEY=VALUE without spaces, for example --set attention.causal=false";
  EXPECT_EQ(complaint("run", {"r.yaml", "--set", "a.b", "=", "c"}), "run: --set a.b" + needs);
  EXPECT_EQ(complaint("run", {"r.yaml", "--set", "a.b=", "c"}), "run: --set a.b=" + needs);
  EXPECT_EQ(complaint("run", {"r.yaml", "--set", "a.b", "c"}), "run: --set a.b" + needs);
  EXPECT_EQ(complaint("run", {"r.yaml", "--set", ""}), "run: --set " + needs);
}

TEST(Words, RanksAreTheLaunchers) {
  for (const std::string word : {"-n", "-np", "-n2", "-np4", "--np", "--np=2", "--ntasks=2", "--nprocs"}) {
    EXPECT_EQ(complaint("run", {word, "2", "r.yaml"}),
              "run: there is no option '" + word +
                  "': the launcher decides how many ranks there are, for example mpirun -n 2 annulus run ..., or srun "
                  "--kill-on-bad-exit=1 -n 2 annulus run ...");
  }
  EXPECT_EQ(complaint("generate", {"--ranks", "2"}).find("generate: there is no option '--ranks': the launcher"), 0u);
  bool version = false;
  const std::vector<Option> none{flag("--version", version, "")};
  EXPECT_EQ(complaint_of_words("", none, {"-n"}).find("there is no option '-n': the launcher decides"), 0u);
  EXPECT_EQ(complaint_of_words("", none, {"--verson"}), "there is no option '--verson', did you mean '--version'?");
}

TEST(Words, OptionsMisspelt) {
  EXPECT_EQ(complaint("run", {"r.yaml", "--dryrun"}), "run: there is no option '--dryrun', did you mean '--dry-run'?");
  EXPECT_EQ(complaint("run", {"r.yaml", "--dry_run"}),
            "run: there is no option '--dry_run', did you mean '--dry-run'?");
  EXPECT_EQ(complaint("generate", {"--sequnce=8"}),
            "generate: there is no option '--sequnce=8', did you mean '--sequence'?");
  EXPECT_EQ(complaint("run", {"r.yaml", "--threads=2"}),
            "run: there is no option '--threads=2'; keys of the run file are changed by --set KEY=VALUE");
  EXPECT_EQ(complaint("run", {"r.yaml", "-nodes"}).find("run: there is no option '-nodes'; keys"), 0u);
  EXPECT_EQ(complaint("generate", {"--frobnicate"}), "generate: there is no option '--frobnicate'");
}

TEST(Words, TooMany) {
  EXPECT_EQ(complaint("run", {"r.yaml", "attention.causal=false"}),
            "run: 'attention.causal=false' was not expected, write --set attention.causal=false");
  EXPECT_EQ(complaint("run", {"--set", "a.b=1", "a.c=2", "r.yaml"}),
            "run: 'a.c=2' was not expected, write --set a.c=2");
  EXPECT_EQ(complaint("run", {"r.yaml", "s.yaml"}), "run: 's.yaml' was not expected, there is a run file already");
  EXPECT_EQ(complaint("generate", {"x.h5"}), "generate: 'x.h5' was not expected, write --output x.h5");
  EXPECT_EQ(complaint("list", {"x"}), "list: 'x' was not expected");
}

}  // namespace
}  // namespace annulus::app
