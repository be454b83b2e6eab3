// Mistakes that users make: the exit status is right, and one message says what is wrong, where, and what was expected.
// No file is left, and no rank is left waiting.
#include "program.hpp"

namespace annulus::test {
namespace {

class Errors : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 40 --heads 4 --head-dim 8").status, 0);
  }
  void TearDown() override {
    for (const std::string& name : files())
      EXPECT_EQ(name.find(".tmp"), std::string::npos) << name << " was left behind";
    ProgramTest::TearDown();
  }
  /// Runs on each of these numbers of ranks (0: without a launcher). Expects this exit status, within 100 s (a
  /// rank that waits in vain would take longer), and on stderr one error message with all these words.
  void expect(const std::string& arguments, int status, const std::vector<std::string>& words,
              const std::vector<int>& launches = {0, 3}) {
    for (const int ranks : launches) {
      const Outcome outcome = annulus(ranks, arguments);
      SCOPED_TRACE(fmt::format("{} ranks: {}\nstdout: {}\nstderr: {}", ranks, arguments, outcome.out, outcome.err));
      EXPECT_EQ(outcome.status, status);
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
      EXPECT_LT(outcome.seconds, 100);
    }
  }
  std::string deck(const std::string& text) { return "run " + write("run.yaml", text); }
};

TEST_F(Errors, CommandLine) {
  const std::vector<std::string> names = verbs();
  ASSERT_GE(names.size(), 7u);
  expect("", 2, {"the verb is missing", fmt::format("expected one of {}\n", fmt::join(names, ", "))});
  for (const std::string& name : names) {
    expect(name + " --frobnicate", 2, {name + ": there is no option '--frobnicate'"}, {0});
  }
  expect("runn x.yaml", 2, {"'runn'", "'run'"});
  expect("run", 2, {"file"});
  expect("run --frobnicate x.yaml", 2, {"frobnicate"});
  expect("run absent.yaml", 2, {"absent.yaml"});
  expect("run absent.yaml --threads=2", 2, {"--threads=2"});  // Kokkos 3.4 would take it as its own option
  expect("run absent.yaml --ranks 4", 2, {"--dry-run"});
  expect("generate --output x.h5 --sequence 0 --heads 2", 2,
         {"--sequence: found '0', expected a whole number, 1 or more"});
  expect("generate --output x.h5 --sequence 2.5 --heads 2", 2, {"--sequence: found '2.5', expected a whole"}, {0});
  expect("verify x.yaml --rows 0", 2, {"--rows: found '0', expected a whole number, 1 or more"}, {0});
  expect("generate --output x.h5 --sequence 10 --heads 4 --kv-heads 3", 2,
         {"generate --kv-heads: 3 does not divide the 4 heads"});
  expect("generate --output x.h5 --sequence 10 --heads 4 --dtype fp16", 2,
         {"--dtype: found 'fp16', expected one of float64, float32, float16, bfloat16, did you mean 'float16'?"});
  const std::string layer = "generate --output x.h5 --layer 1048576 --head-dim 1 ";
  expect(layer + "--heads 1 --sequence 17592186044416", 2, {"--layer 1048576", "--sequence", "expected at most 1e18"});
  expect(layer + "--heads 1 --sequence 4398046511105", 2, {"--layer 1048576", "--sequence"}, {0});
  expect(layer + "--heads 4398046511105 --sequence 1", 2, {"--layer 1048576", "--heads"}, {0});
  EXPECT_EQ(files(), std::vector<std::string>{"in.h5"});
  expect("generate --output in.h5 --sequence 10 --heads 4", 1, {"in.h5", "overwrite"});
}

TEST_F(Errors, NumbersOfTheCommandLineAreReadAsInTheRunFile) {
  expect("generate --output x.h5 --sequence 010 --heads 2", 2, {"--sequence: found '010', expected a whole number"},
         {0});
  expect("generate --output x.h5 --sequence 8 --heads 2 --seed -1", 2, {"--seed: found '-1', expected a whole number"});
  expect(deck("input: {file: in.h5}\noutput: {file: o.h5}\n") + " --set distribution.stall_timeout=010", 2,
         {"--set distribution.stall_timeout=010", "found '010', expected a finite number above 0; a leading 0 looks"},
         {0});
  EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "run.yaml"}));
}

TEST_F(Errors, MistakesOfNewUsersGetASuggestion) {
  const std::vector<int> alone{0};
  const std::string run = deck("input: {file: in.h5}\noutput: {file: o.h5}\n");
  expect(run + " --set attention.segments=[128, all] --set attention.dilations=[1, 2]", 2,
         {"--set attention.segments=[128,: the shell cut this at a space, put it in quotes",
          "attention.segments=[128, all]"});
  expect(run + " --dryrun", 2, {"no option '--dryrun'", "'--dry-run'"}, alone);
  expect(run + " -n 2", 2, {"no option '-n'", "mpirun -n 2 annulus run", "srun --kill-on-bad-exit=1 -n 2 annulus run"});
  expect(run + " --set attention.causal=False", 2, {"found 'False', expected true or false, did you mean 'false'?"},
         alone);
  expect(run + " causal=False", 2, {"'causal=False' was not expected", "--set attention.causal=false"}, alone);
  expect(run + " --set causal=False", 2, {"unknown key 'causal', did you mean 'attention.causal'?"}, alone);
  expect("generate --output \"\" --sequence 8 --heads 1", 2, {"names no file"}, alone);
  expect("run in.h5", 2, {"in.h5: is an HDF5 file, expected a run file (YAML)", "input: {file: in.h5}"});
  expect("verify in.h5", 2, {"in.h5: is an HDF5 file", "the one that made it, for verify"}, alone);
  expect("run .", 2, {".: is a folder, expected a run file"}, alone);
  expect("run /dev/null", 2, {"the run file is empty"}, alone);
  expect("run /dev/zero", 2, {"/dev/zero: is not a text file, expected a run file (YAML)"}, alone);
  ASSERT_EQ(shell("yes | head -c 17000000 > long.yaml").status, 0);
  expect("run long.yaml", 2, {"long.yaml: is larger than 16 MiB"}, alone);
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(Errors, AFileThatCannotBeMadeSaysWhy) {
  expect(deck("input: {file: in.h5}\noutput: {file: /proc/x.h5}\n"), 1,
         {"/proc/x.h5.journal: cannot be made: No such file or directory, though its folder exists"}, {0});
}

TEST_F(Errors, ARelativePathStartsAtTheRunFile) {
  ASSERT_EQ(shell("mkdir -p decks/sub && ln -s decks/sub link").status, 0);
  write("decks/run.yaml", "input: {file: in.h5}\noutput: {file: o.h5}\n");
  expect("run decks/run.yaml", 1,
         {"decks/run.yaml:1:9: input.file", "decks/in.h5", "from the folder of the run file", "../in.h5"});
  expect("run link/../run.yaml", 1, {"decks/in.h5; relative paths start from the folder", "../in.h5"}, {0});
  write("decks/run.yaml", "input: {file: absent.h5}\noutput: {file: o.h5}\n");
  expect("run decks/run.yaml", 1, {"decks/absent.h5: cannot be opened"}, {0});
}

TEST_F(Errors, ARunFileThatCannotBeReadIsNotAnEmptyOne) {
  expect("run /proc/self/mem", 2, {"/proc/self/mem: reading failed: Input/output error"});
}

TEST_F(Errors, RunFile) {
  const std::string rest = "output: {file: o.h5}\n";
  const std::vector<int> alone{0};  // every rank parses the same text; only two mistakes are tried on 3 ranks, too
  expect(deck("input: {file: in.h5}\nattention:\n  segmnts: [8]\n" + rest), 2, {"run.yaml:3:3", "segmnts", "segments"});
  expect(deck("input: {file: in.h5}\ninput: {file: in.h5}\n" + rest), 2, {"run.yaml:2:1", "input"}, alone);
  expect(deck("input: {file: in.h5}\n"), 2, {"output"}, alone);
  expect(deck("input: {file: in.h5}\nattention: {causal: 3}\n" + rest), 2, {"run.yaml:2:21", "causal"}, alone);
  expect(deck("input: {file: in.h5}\nattention: {segments: [010], dilations: [1]}\n" + rest), 2,
         {"run.yaml:2:24", "010"}, alone);
  expect(deck("input: {file: in.h5}\nattention: {scale: .inf}\n" + rest), 2, {"run.yaml:2:20", ".inf"}, alone);
  expect(deck("input: {file: in.h5}\nattention: {segments: [8]}\n" + rest), 2, {"run.yaml:2", "dilations"}, alone);
  expect(deck("input: {file: in.h5}\n" + rest + "---\ninput: {}\n"), 2, {"run.yaml:4:1", "document"}, alone);
  expect(deck("input: {file: in.h5}\ndistribution: {strategy: rings}\n" + rest), 2,
         {"run.yaml:2:16", "rings", "'ring'"});
  expect(deck("input: {file: in.h5}\ndistribution: {strategy: hybrid, ulysses_ranks: 5}\n" + rest), 2,
         {"run.yaml:2:34", "ulysses_ranks: 5 does not divide the number of ranks"});
  expect(deck("input: {file: in.h5}\nattention: {group_scale: true}\n" + rest), 2,
         {"run.yaml:2", "group_scale", "grouped"}, alone);
  expect(deck("input: {file: in.h5}\ncompute: {reproducable: true}\n" + rest), 2, {"run.yaml:2:11", "'reproducible'"},
         alone);
  expect(deck("input: {file: in.h5}\n" + rest) + " --set attention.causl=true", 2, {"--set", "causl", "causal"}, alone);
  expect(deck("input: {file: in.h5}\nattention: {semantics: grouped, segments: [2, 4, 8, 16, all], dilations: [1, 1, "
              "1, 1, 1]}\n" +
              rest),
         2, {"run.yaml:2", "5", "4"}, alone);
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(Errors, WhatCannotBeReproducible) {
  const std::string rest = "output: {file: o.h5}\n";
  const auto asked = [&](const std::string& distribution) {
    return deck("input: {file: in.h5}\ncompute: {reproducible: true}\ndistribution: {" + distribution + "}\n" + rest);
  };
  expect(asked("strategy: ring_blocking, partition: zigzag"), 2,
         {"run.yaml:3:41", "zigzag", "ring_blocking", "contiguous, or with ring and rotation zigzag"});
  expect(asked("partition: block_cyclic, strategy: rotation"), 2, {"run.yaml:3:16", "block_cyclic", "contiguous"}, {0});
  expect(asked("strategy: ring_bidirectional"), 2,
         {"run.yaml:3:16", "both directions", "expected auto, single, allgather"});
  expect(asked("strategy: allgather_overlap"), 2, {"run.yaml:3:16", "arrive", "rotation"}, {0});
  expect("run --dry-run --ranks 8 run.yaml", 2, {"run.yaml:3:16", "arrive"}, {0});
  ASSERT_EQ(annulus(0, "generate --output train.h5 --sequence 40 --heads 4 --head-dim 8 --dout").status, 0);
  const auto trained = [&](const std::string& distribution) {
    return deck("input: {file: train.h5}\ncompute: {reproducible: true, backward: true}\ndistribution: {" +
                distribution + "}\n" + rest);
  };
  if (!able({"onesided"}).empty()) {
    expect(trained("strategy: onesided"), 2, {"run.yaml:2:31", "backward", "onesided", "order", "rotation"}, {0});
  }
  expect(trained("strategy: allgather, partition: zigzag"), 2,
         {"run.yaml:3:37", "zigzag", "allgather", "compute.backward", "contiguous"}, {0});
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(Errors, AStrategyThatTheMpiLibraryCannotRunIsRefused) {
  const bool can = able({"onesided"}).size() == 1;
  const Outcome ran =
      annulus(1, deck("input: {file: in.h5}\ndistribution: {strategy: onesided}\noutput: {file: o.h5}\n"));
  EXPECT_EQ(ran.status, can ? 0 : 2) << ran.err;
  EXPECT_EQ(count(ran.err, "run.yaml:2:16: distribution.strategy: onesided cannot run with this MPI"), can ? 0 : 1)
      << ran.err;
  EXPECT_EQ(exists("o.h5"), can);
}

TEST_F(Errors, InputFile) {
  const std::string rest = "output: {file: o.h5}\n";
  expect(deck("input: {file: none.h5}\n" + rest), 1, {"none.h5"});
  write("text.h5", "this is not HDF5\n");
  expect(deck("input: {file: text.h5}\n" + rest), 1, {"text.h5", "HDF5"});
  ASSERT_EQ(shell("head -c 6000 in.h5 > cut.h5").status, 0);
  expect(deck("input: {file: cut.h5}\n" + rest), 1, {"cut.h5"});
  expect(deck("input: {file: in.h5, q: /queries}\n" + rest), 1, {"in.h5", "/queries"});
  ASSERT_EQ(annulus(0, "generate --output heads.h5 --sequence 40 --heads 6 --kv-heads 2 --head-dim 8").status, 0);
  expect(deck("input: {file: heads.h5, q: /k, k: /q, v: /q}\n" + rest), 1, {"heads.h5", "/q", "6", "2"});
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(Errors, NanInTheInputIsNamedByItsPlace) {
  // (b 0, s 7, h 2, d 5) of q (1, 40, 4, 8) is number 7 * 32 + 2 * 8 + 5 of the dataset; its bytes are set to a quiet
  // NaN.
  ASSERT_EQ(shell("h5dump -p -H -d /q in.h5 | awk \"/OFFSET/ {print \\$2}\" > offset.txt").status, 0);
  const long offset = std::stol(slurp(folder / "offset.txt")) + (7 * 32 + 2 * 8 + 5) * 4;
  std::fstream file(folder / "in.h5", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file.write("\x00\x00\xc0\x7f", 4);
  file.close();
  expect(deck("input: {file: in.h5}\noutput: {file: o.h5}\n"), 1, {"in.h5", "/q", "[0, 7, 2, 5]", "nan"});
  EXPECT_FALSE(exists("o.h5"));
}

TEST_F(Errors, OutputLocation) {
  expect(deck("input: {file: in.h5}\noutput: {file: nowhere/o.h5}\n"), 1, {"nowhere"});
  write("o.h5", "precious");
  expect(deck("input: {file: in.h5}\noutput: {file: o.h5}\n"), 1, {"o.h5", "overwrite"});
  EXPECT_EQ(slurp(folder / "o.h5"), "precious");
  expect(deck("input: {file: in.h5}\noutput: {file: in.h5, overwrite: true}\n"), 2, {"run.yaml:2", "in.h5"});
  expect(deck("input: {file: in.h5}\noutput: {file: p.h5, report: nowhere/r.json}\n"), 1, {"nowhere"});
  EXPECT_FALSE(exists("p.h5"));
}

TEST_F(Errors, AFullDiskIsOneMessageAndNoFile) {
  write("full.yaml",
        "input: {generate: {sequence: 40000, heads: 4}}\nattention: {segments: [16], dilations: [1]}\n"
        "distribution: {strategy: ring}\noutput: {file: o.h5}\n");
  for (const int ranks : {1, 3}) {
    // A limit of 32 MiB per file stands for the full disk; the result needs 40 MiB. The launcher makes files, too, so
    // only the ranks have the limit.
    const Outcome outcome = shell(fmt::format(ANNULUS_LAUNCH, ranks) + " sh -c \"ulimit -f 65536; exec " +
                                  ANNULUS_PROGRAM + " run full.yaml\"");
    SCOPED_TRACE(outcome.err);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
    EXPECT_NE(outcome.err.find("o.h5"), std::string::npos);
    EXPECT_FALSE(exists("o.h5"));
    EXPECT_LT(outcome.seconds, 100);
  }
}

TEST_F(Errors, VerifyWithoutAResultSaysToRunFirst) {
  write("run.yaml", "input: {file: in.h5}\noutput: {file: o.h5}\n");
  expect("verify run.yaml", 1, {"o.h5", "run"});
}

}  // namespace
}  // namespace annulus::test
