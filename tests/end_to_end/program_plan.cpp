// `annulus plan`: the table, what `auto` takes in runs and why, machine files, and mistakes.
#include <cctype>

#include "program.hpp"

namespace annulus::test {
namespace {

class Plans : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml",
          "input: {generate: {sequence: 65536, heads: 8, head_dim: 64}}\n"
          "attention: {segments: [2048, 8192, 32768, all], dilations: [1, 4, 16, 64], causal: false}\n"
          "output: {file: o.h5}\n");
    write("small.yaml",
          "input: {generate: {sequence: 600, heads: 2, head_dim: 16}}\noutput: {file: small.h5, overwrite: true}\n"
          "distribution: {local_below: 0}\n");
  }
  /// Words of the line of the table for this strategy and partition, without the mark "*".
  static std::vector<std::string> line(const std::string& table, const std::string& strategy,
                                       const std::string& partition) {
    std::stringstream lines(table);
    for (std::string text; std::getline(lines, text);) {
      std::stringstream words(text);
      std::vector<std::string> all;
      for (std::string word; words >> word;) {
        if (word != "*") all.push_back(word);
      }
      if (all.size() > 2 && all[0] == strategy && all[1] == partition) return all;
    }
    return {};
  }
};

TEST_F(Plans, TableHasEveryStrategyAndTheBytesOfTheMainSetting) {
  const Outcome planned = annulus(0, "plan run.yaml --ranks 4");
  ASSERT_EQ(planned.status, 0) << planned.err;
  for (const std::string& name : strategies()) {
    if (name == "auto") continue;
    EXPECT_NE(planned.out.find(" " + name + " "), std::string::npos) << name << " is missing in:\n" << planned.out;
  }
  // Columns: strategy partition time unit compute unit exposed unit memory unit MiB messages balance
  const auto rotation = line(planned.out, "rotation", "contiguous"), ring = line(planned.out, "ring", "contiguous");
  ASSERT_EQ(rotation.size(), 13u) << planned.out;
  ASSERT_EQ(ring.size(), 13u) << planned.out;
  EXPECT_EQ(rotation[10], "6.0");
  EXPECT_EQ(rotation[11], "3");
  EXPECT_EQ(ring[10], "9.0");
  for (const char* word : {"built-in default", "auto takes ", "predicted"}) {
    EXPECT_NE(planned.out.find(word), std::string::npos) << word << " is missing in:\n" << planned.out;
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml", "small.yaml"})) << "a plan leaves nothing";
}

TEST_F(Plans, ForMoreRanksThanAnyMachineHereHas) {
  const Outcome planned = annulus(2, "plan run.yaml --ranks 65536");
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("65536 ranks"), std::string::npos) << planned.out;
  EXPECT_EQ(count(planned.out, "auto takes"), 1) << "only one rank speaks";
  EXPECT_NE(planned.out.find("~"), std::string::npos) << "one row per rank: not every rank reads every offset";
}

TEST_F(Plans, ShowHybridInTheGroupsThatItWouldRunIn) {
  const auto of_group = [&](int ranks, const std::string& rest) {
    const Outcome planned = annulus(ranks, "plan run.yaml " + rest);
    EXPECT_EQ(planned.status, 0) << planned.err;
    auto hybrid = line(planned.out, "hybrid", "contiguous"), ulysses = line(planned.out, "ulysses", "contiguous");
    EXPECT_GT(hybrid.size(), 4u) << planned.out;
    return std::pair(std::vector<std::string>(hybrid.begin() + 1, hybrid.end()),
                     std::vector<std::string>(ulysses.begin() + 1, ulysses.end()));
  };
  const auto [one, all] = of_group(0, "--ranks 4");  // on one node of 16
  EXPECT_EQ(one, all) << "one group of all ranks";
  const auto [pairs, same] =
      of_group(0, "--ranks 4 --set distribution.strategy=hybrid --set distribution.ulysses_ranks=2");
  EXPECT_NE(pairs, same);
  EXPECT_NE(pairs, one);
  EXPECT_EQ(same, all) << "ulysses is one group always";
  const auto [nodes, wide] = of_group(0, "--ranks 64");
  EXPECT_NE(nodes, wide) << "a group on each of four nodes";
  const Outcome odd =
      annulus(2, "plan run.yaml --ranks 5 --set distribution.strategy=hybrid --set distribution.ulysses_ranks=2");
  EXPECT_EQ(odd.status, 2);
  EXPECT_NE(odd.err.find("distribution.ulysses_ranks: 2 does not divide the number of ranks, 5"), std::string::npos)
      << odd.err;
}

TEST_F(Plans, ExplainTheAutoThatRuns) {
  const auto taken = [&](const std::string& out) {
    const std::size_t at = out.find("auto takes ");
    return at == std::string::npos ? out : out.substr(at, out.find(':', at) - at);
  };
  write("fast.yaml",
        "input: {generate: {sequence: 4096, heads: 2, head_dim: 16, batch: 2}}\noutput: {file: f.h5}\n"
        "attention: {causal: false}\ndistribution: {local_below: 0}\n");
  for (const int ranks : {2, 4}) {
    const Outcome planned = annulus(ranks, "plan fast.yaml"), dry = annulus(ranks, "run --dry-run fast.yaml");
    ASSERT_EQ(planned.status, 0) << planned.err;
    EXPECT_EQ(taken(planned.out), taken(dry.out)) << planned.out;
    EXPECT_NE(dry.out.find("# memory for a rank: "), std::string::npos) << dry.out;
  }
}

/// Runs whose tensors fit into one rank's share of the memory only if they are spread over the ranks.
class Limits : public Plans {
 protected:
  /// What two ranks print, if each of them starts after these shell commands.
  Outcome behind(const std::string& words, const std::string& arguments) const {
    return shell(fmt::format(ANNULUS_LAUNCH, 2) + " sh -c \"" + words + "; exec " + ANNULUS_PROGRAM + " " + arguments +
                 "\"");
  }
  /// The number of MiB that follows "# memory for a rank: ".
  static double megabytes(const std::string& out) {
    const std::string words = "# memory for a rank: ";
    const std::size_t at = out.find(words);
    return at == std::string::npos ? 0 : std::stod(out.substr(at + words.size()));
  }
  /// Checks that a dry run names this bound, and that `auto` takes a strategy that needs no more memory.
  void expect_kept(const std::string& words, const std::string& bound) const {
    const Outcome dry = behind(words, "run --dry-run small.yaml");
    ASSERT_EQ(dry.status, 0) << dry.err;
    ASSERT_NE(dry.out.find(bound), std::string::npos) << dry.out;
    const double limit = megabytes(dry.out);
    ASSERT_GT(limit, 20) << dry.out;
    ASSERT_LT(limit, 1000) << dry.out;
    // q, k, v and out take 8 KiB a row; for all rows that is one and a half times the limit.
    write("large.yaml", fmt::format("input: {{generate: {{sequence: {}, heads: 8, head_dim: 64}}}}\n"
                                    "attention: {{segments: [64], dilations: [1]}}\noutput: {{file: large.h5}}\n"
                                    "distribution: {{local_below: 10000000}}\n",
                                    long(1.5 * limit * 128)));
    const Outcome ran = behind(words, "run large.yaml");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out.find("single (auto)"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("MiB per rank (" + bound), std::string::npos) << ran.out;
  }
};

// A program with the address sanitizer takes some 200 MiB, and terabytes of addresses, for itself.
#ifdef __SANITIZE_ADDRESS__
TEST_F(Limits, OfSlurmAreKept) {
  expect_kept("export SLURM_MEM_PER_CPU=200 SLURM_CPUS_PER_TASK=2", "Slurm's --mem-per-cpu");
}
#else
TEST_F(Limits, OfSlurmAreKept) {
  expect_kept("export SLURM_MEM_PER_CPU=100 SLURM_CPUS_PER_TASK=2", "Slurm's --mem-per-cpu");
}
TEST_F(Limits, OfAddressSpaceAreKept) { expect_kept("ulimit -v 800000", "address space limit (ulimit -v)"); }
#endif

TEST_F(Limits, OfSharedMemoryAreKnownBeforeAnythingIsRead) {
  // No machine has shared memory for windows of 12 TiB, which even a pass over one of the two heads needs.
  const Outcome named = annulus(2,
                                "run small.yaml --set distribution.strategy=onesided "
                                "--set input.generate.sequence=100000000000");
  EXPECT_EQ(named.status, 1);
  EXPECT_EQ(count(named.err, "annulus: error:"), 1) << named.err;
  for (const char* word : {"need 12817382.8 MiB of shared memory", " free; expected ", "--shm-size", "than onesided"}) {
    EXPECT_NE(named.err.find(word), std::string::npos) << named.err;
  }
  const Outcome statistics = annulus(2,  // sums of statistics need less memory than sums of gradients
                                     "run small.yaml --set distribution.strategy=onesided "
                                     "--set input.generate.sequence=100000000000 --set output.statistics=[received]");
  EXPECT_EQ(statistics.status, 1);
  EXPECT_NE(statistics.err.find("need 12817382.8 MiB of shared memory"), std::string::npos) << statistics.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml", "small.yaml"})) << "nothing was made";
}

TEST_F(Plans, OfSequencesThatNoIntegerOf64BitsCounts) {
  for (const char* pattern : {"", " --set attention.segments=[2048,all] --set attention.dilations=[1,64]"}) {
    for (const char* verb : {"plan --ranks 65536", "run --dry-run --set compute.backward=true --ranks 5"}) {
      for (const char* rows : {"4300000000", "1000000000000"}) {
        const Outcome outcome =
            annulus(0, fmt::format("{} small.yaml --set input.generate.sequence={}{}", verb, rows, pattern));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        for (std::size_t at = 0; at + 1 < outcome.out.size(); ++at) {
          const bool negative = outcome.out[at] == '-' && std::isdigit(static_cast<unsigned char>(outcome.out[at + 1]));
          const bool starts = at == 0 || std::isspace(static_cast<unsigned char>(outcome.out[at - 1]));
          ASSERT_FALSE(negative && starts) << verb << ", " << rows << ":\n" << outcome.out;
        }
        EXPECT_EQ(outcome.out.find("inf"), std::string::npos) << outcome.out;
        EXPECT_EQ(outcome.out.find("nan"), std::string::npos) << outcome.out;
      }
    }
  }
  // 4.3e9 rows: n (n + 1) / 2 triples of each of 2 heads, 64 flops each.
  const Outcome dry = annulus(0,
                              "run --dry-run --ranks 5 small.yaml --set input.generate.sequence=4300000000 --set "
                              "distribution.strategy=ring --set compute.memory_limit=1000TiB");  // in one pass
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("; 1183360000275.2 GFLOP in all"), std::string::npos) << dry.out;
}

TEST_F(Plans, RunAndDryRunSayWhatAutoTookAndWhy) {
  const Outcome ran = annulus(3, "run small.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("(auto) on 3 ranks"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("predicted"), std::string::npos) << ran.out;
  const Outcome dry = annulus(0, "run --dry-run --ranks 3 small.yaml");
  EXPECT_NE(dry.out.find("# auto takes "), std::string::npos) << dry.out;
  const Outcome local = annulus(3, "run small.yaml --set distribution.local_below=601");
  ASSERT_EQ(local.status, 0) << local.err;
  EXPECT_NE(local.out.find("single (auto) on 3 ranks"), std::string::npos) << local.out;
  EXPECT_NE(local.out.find("600 rows are fewer than distribution.local_below, 601"), std::string::npos) << local.out;
}

TEST_F(Plans, LinesAreShortHoweverManyIntervalsARankHas) {
  const Outcome dry = annulus(0,
                              "run --dry-run --ranks 16 small.yaml --set distribution.strategy=ring --set "
                              "distribution.partition=block_cyclic --set input.generate.sequence=65536");
  ASSERT_EQ(dry.status, 0) << dry.err;
  std::istringstream lines(dry.out);
  int of_ranks = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("[0, ") == line.npos && !line.ends_with(" ...")) continue;
    EXPECT_LE(line.size(), 180u) << line;
    of_ranks += line.ends_with(" ...");
  }
  EXPECT_GE(of_ranks, 16);
}

/// The cost model knows attention only, so the times of layers are not predicted.
TEST_F(Plans, BenchSaysWhichTimesItCannotPredict) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --layer 16 --sequence 64 --heads 2 --head-dim 8").status, 0);
  write("layers.yaml",
        "input: {file: in.h5}\nlayer: {heads: 2}\nbench: {sweep: [{attention.causal: [true, false]}], file: b.h5}\n");
  const Outcome dry = annulus(1, "bench --dry-run layers.yaml");
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_EQ(count(dry.out, ": time not predicted, "), 2) << dry.out;
  EXPECT_NE(dry.out.find(", without 2 whose time is not predicted"), std::string::npos) << dry.out;
}

TEST_F(Plans, OfOneRankAreShownStepByStep) {
  write("deck.yaml",
        "input: {generate: {sequence: 65536, heads: 8, head_dim: 64}}\noutput: {file: out.h5}\n"
        "attention: {segments: [2048, 8192, 32768, all], dilations: [1, 4, 16, 64], causal: false}\n"
        "distribution: {strategy: ring}\n");
  const Outcome ring = annulus(0, "run --dry-run --ranks 4 --rank 1 deck.yaml");
  ASSERT_EQ(ring.status, 0) << ring.err;
  for (const char* line :
       {"# ring, forward, rank 1 of 4, rows [16384, 32768): memory 142.2 MiB, sends 9.0 MiB, receives 9.0 MiB",
        "#     0  1 (own)           16384 x 1   97.2 %  4.0 MiB from 0       4.0 MiB to 2",
        "#     2  3                 1024 x 16    0.1 %  1.0 MiB from 0       4.0 MiB to 2",
        "#   sum                                  354 M  9.0 MiB              9.0 MiB"}) {
    EXPECT_NE(ring.out.find(line), std::string::npos) << line << "\n" << ring.out;
  }
  EXPECT_EQ(ring.out.find("backward"), ring.out.find("backward: false")) << "no gradients are asked for";
  for (const std::string& strategy : strategies()) {  // with gradients
    const std::string set = " --set compute.backward=true --set distribution.strategy=" + strategy;
    const Outcome shown = annulus(0, "run --dry-run --ranks 4 --rank 3 deck.yaml" + set);
    ASSERT_EQ(shown.status, 0) << shown.err;
    const std::string name = strategy == "auto" ? "" : "# " + strategy;
    const std::string pass = strategy == "stream" ? ", forward and dq, block 3 of " : ", backward, rank 3 of 4";
    EXPECT_NE(shown.out.find(name + pass), std::string::npos) << shown.out;
  }
  const Outcome absent = annulus(2, "run --dry-run --rank 2 deck.yaml");
  EXPECT_EQ(absent.status, 2);
  EXPECT_EQ(count(absent.err, "annulus: error: run --rank 2: there are 2 ranks, counted from 0\n"), 1) << absent.err;
  EXPECT_EQ(count(absent.err, "MPI_ABORT"), 0) << absent.err;
  const Outcome many =
      annulus(0, "run --dry-run --ranks 65536 --rank 40000 --set input.generate.sequence=4194304 deck.yaml");
  ASSERT_EQ(many.status, 0) << many.err;
  EXPECT_NE(many.out.find("more steps"), std::string::npos) << many.out;
}

TEST_F(Plans, CalibrateMakesAMachineFileThatPlansAndRunsGoBy) {
  // On rank 1 a read from disk takes a quarter of a second longer than a read from the page cache.
  const Outcome measured = shell(fmt::format(ANNULUS_LAUNCH, 2) +
                                 " env LD_PRELOAD=" ANNULUS_SLOW_CALLS
                                 " SLOW_CALL=\"a read from disk\" SLOW_RANK=1 SLOW_SECONDS=0.25 " ANNULUS_PROGRAM
                                 " plan --calibrate m.yaml");
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_GE(count(measured.err, "slow: sleeps"), 1) << "nothing was read past the page cache";
  const std::string text = slurp(folder / "m.yaml");
  EXPECT_EQ(text, measured.out);
  for (const char* word : {"# git_commit", "# hosts", "# ranks: 2", "seconds_per_gflop", "overlap"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in:\n" << text;
  }
  const std::size_t rate = text.find("read_rate: ");
  ASSERT_NE(rate, std::string::npos) << text;
  EXPECT_LE(std::atof(text.c_str() + rate + 11), (64 << 20) / 0.25) << "the slowest rank's rate counts";
  for (const char* word : {"# files: each rank reads ", " from the page cache"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in:\n" << text;
  }
  const Outcome planned = annulus(0, "plan run.yaml --ranks 2 --machine m.yaml");
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("m.yaml: "), std::string::npos) << planned.out;
  EXPECT_EQ(planned.out.find("built-in default"), std::string::npos);
  // If a message takes a minute, `auto` computes on one rank. So the run uses the machine file, as the plan does.
  const std::size_t at = text.find("seconds_per_message: ");
  std::string slow = text;
  slow.replace(at, text.find(" #", at) - at, "seconds_per_message: 60");
  write("slow.yaml", slow);
  const Outcome ran = annulus(2, "run small.yaml --set distribution.machine=slow.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("single (auto) on 2 ranks"), std::string::npos) << ran.out;
}

TEST_F(Plans, OfARankThatIsNotThereAreRefused) {
  const auto expect = [&](const std::string& arguments, const std::string& words) {
    const Outcome outcome = annulus(0, "run small.yaml " + arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  expect("--rank 1", "run --rank requires --dry-run");
  expect("--dry-run --ranks 4 --rank 4", "run --rank 4: there are 4 ranks, counted from 0");
  expect("--dry-run --rank -1", "--rank: found '-1', expected a whole number from 0");
}

TEST_F(Plans, Mistakes) {
  const auto expect = [&](const std::string& arguments, int status, const std::vector<std::string>& words) {
    for (const int ranks : {0, 2}) {
      const Outcome outcome = annulus(ranks, arguments);
      EXPECT_EQ(outcome.status, status) << arguments << ": " << outcome.err;
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1) << arguments << ": " << outcome.err;
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    }
  };
  expect("plan", 2, {"--calibrate"});
  expect("plan run.yaml --calibrate m.yaml", 2, {"--calibrate"});
  expect("plan --calibrate m.yaml --ranks 8", 2, {"--calibrate", "--ranks"});
  expect("plan run.yaml --ranks 0", 2, {"--ranks"});
  expect("plan run.yaml --ranks 65537", 2, {"--ranks"});
  expect("plan absent.yaml --ranks 4", 2, {"absent.yaml"});
  expect("plan run.yaml --machine absent.yaml", 2, {"absent.yaml"});
  expect("plan small.yaml --set input.generate.sequence=1000000000000 --set input.generate.heads=1000", 2,
         {"q of 1 x 1000000000000 rows, 1000 heads of 16", "6.4e+16 bytes", "at most 3.6e+16"});
  write("bad.yaml", "kernel: 3\n");
  expect("plan run.yaml --machine bad.yaml", 2, {"bad.yaml:1:9", "section"});
  expect("run small.yaml --set distribution.machine=bad.yaml", 2, {"bad.yaml:1:9", "section"});
  expect("plan --calibrate absent/m.yaml", 1, {"absent/m.yaml"});
}

}  // namespace
}  // namespace annulus::test
