// Files that the program makes: complete or not at all, never in place of what they must not replace, and nothing left
// behind by a run that fails or is ended from outside.
#include <sys/stat.h>

#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

// This run makes the part file of its result, of 97 MiB, and then computes for a quarter of a minute on fast cores.
// No test waits for its end.
const char* const long_run = R"(
input: {generate: {sequence: 49152, heads: 8}}
attention: {causal: false}
distribution: {strategy: ring_blocking, stall_timeout: 60}
output: {file: result.h5}
)";
const std::string smaller = "input.generate.sequence=16384";  // computes for two seconds
const char* const short_run = R"(
input: {generate: {sequence: 64, heads: 2, head_dim: 8}}
output: {file: result.h5, report: report.json}
)";

class Files : public ProgramTest {
 protected:
  using Names = std::vector<std::string>;

  static std::string launch(int ranks, const std::string& arguments) {
    const std::string mpirun = ranks > 0 ? fmt::format(ANNULUS_LAUNCH, ranks) + " " : "";
    return mpirun + ANNULUS_PROGRAM + " " + arguments;
  }
  /// Waits until all ranks run and the file of the result has been laid out.
  bool works(Launched& run, int ranks, const std::string& output = "result.h5") const {
    const auto is_made = [&] {
      if (temporaries(output) != 1) return false;
      return !exists(output + ".part") || slurp(folder / (output + ".journal")).find(" owner ") != std::string::npos;
    };
    return run.reaches(is_made, ranks);
  }
  /// Files that are being made: results as NAME.part, small files as NAME.tmp.<process>.<random>.
  int temporaries(const std::string& of = "result.h5") const {
    int found = 0;
    for (const std::string& name : files()) found += name.find(of + ".tmp.") == 0 || name == of + ".part" ? 1 : 0;
    return found;
  }
  void expect_refused(const std::string& arguments, int status, const Names& words,
                      const std::vector<int>& launches = {0}) const {
    const Names before = files();
    for (const int ranks : launches) {
      const Outcome outcome = annulus(ranks, arguments);
      SCOPED_TRACE(fmt::format("{} ranks: {}\n{}", ranks, arguments, outcome.err));
      EXPECT_EQ(outcome.status, status);
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
      EXPECT_EQ(files(), before);
    }
  }
};

// A stop that USR1 requests is no error, and has its own exit status.
TEST_F(Files, ASignalEndsARunWithItsStatusAndLeavesNothing) {
  write("run.yaml", long_run);
  struct Case {
    int signal, status;
    const char* line;
  };
  for (const Case& sent : {Case{SIGUSR1, 75, "annulus: stopped on request by signal USR1; nothing was kept but"},
                           {SIGTERM, 1, "annulus: error: ended by signal TERM; nothing was kept but"},
                           {SIGINT, 1, "annulus: error: ended by signal INT; nothing was kept but"},
                           {SIGHUP, 1, "annulus: error: ended by signal HUP; nothing was kept but"}}) {
    SCOPED_TRACE(sent.line);
    Launched run(folder, launch(0, "run run.yaml"));
    ASSERT_TRUE(works(run, 1)) << run.err();
    run.send_launcher(sent.signal);
    EXPECT_EQ(run.status(60), sent.status) << run.err();
    EXPECT_EQ(count(run.err(), sent.line), 1) << run.err();
    EXPECT_EQ(count(run.err(), "the same command begins again\n"), 1) << run.err();
    EXPECT_EQ(files(), Names{"run.yaml"});
  }
}

/// While a file is made, its name is longer than at the end. A dry run must refuse a name that would then be too long.
TEST_F(Files, NamesThatAreTooLongAreRefusedByTheDryRunToo) {
  write("run.yaml",
        "input: {generate: {sequence: 8, heads: 1, head_dim: 4}}\noutput: {file: out.h5, overwrite: true}\n");
  const auto name = [](std::size_t letters) { return std::string(letters, 'n'); };
  for (const std::string key : {"output.file", "output.report", "output.trace"}) {
    for (const char* verb : {"run --dry-run run.yaml --set ", "run run.yaml --set "}) {
      const Outcome longest = annulus(0, verb + key + "=" + name(192));
      EXPECT_EQ(longest.status, 0) << longest.err;
      std::filesystem::remove(folder / name(192));
      std::filesystem::remove(folder / "out.h5");
      for (const std::size_t letters : {193, 225, 255, 300}) {
        expect_refused(verb + key + "=" + name(letters), 2,
                       {key, fmt::format("the name has {} bytes, expected at most 192", letters)}, {0, 2});
      }
    }
  }
  expect_refused("generate --sequence 8 --heads 1 --output " + name(193), 1, {"the name has 193 bytes"}, {0, 2});
  write("bench.yaml", "input: {generate: {sequence: 8, heads: 1}}\nbench: {file: " + name(193) +
                          ", sweep: [{distribution.strategy: [ring]}]}\n");
  for (const char* verb : {"bench bench.yaml", "bench --dry-run bench.yaml"}) {
    expect_refused(verb, 1, {"the name has 193 bytes"});
  }
}

#ifdef ANNULUS_GENTLE_LAUNCHER
TEST_F(Files, ASignalToOneRankEndsTheWholeJobAndLeavesNothing) {
  write("run.yaml", long_run);
  struct Case {
    int rank, signal, status;
    const char* line;
  };
  for (const Case& sent : {Case{1, SIGUSR1, 75, "annulus: rank 1: stopped on request by signal USR1; "},
                           {0, SIGTERM, 1, "annulus: error: rank 0: ended by signal TERM; "}}) {
    Launched run(folder, launch(2, "run run.yaml"));
    ASSERT_TRUE(works(run, 2)) << run.err();
    run.send(sent.rank, sent.signal);
    EXPECT_EQ(run.status(60), sent.status) << run.err();
    EXPECT_EQ(run.left(), 0);
    EXPECT_EQ(count(run.err(), sent.line), 1) << run.err();
    EXPECT_EQ(files(), Names{"run.yaml"});
  }
}

TEST_F(Files, ASignalToTheLauncherEndsTheWholeJobAndLeavesNothing) {
  write("run.yaml", long_run);
  for (const auto& [signal, status] : {std::pair(SIGUSR1, 75), {SIGTERM, 1}}) {
    Launched run(folder, launch(2, "run run.yaml"));
    ASSERT_TRUE(works(run, 2)) << run.err();
    run.send_launcher(signal);
    EXPECT_EQ(run.status(60), status) << run.err();
    EXPECT_EQ(run.left(), 0);
    EXPECT_EQ(files(), Names{"run.yaml"});
  }
}

TEST_F(Files, TheOtherVerbsThatMakeFilesLeaveNothingEither) {
  // Six gigabytes take seconds to write. The run is ended when the file has been made, and in the middle of writing.
  for (const bool writes : {false, true}) {
    Launched made(folder, launch(2, "generate --output big.h5 --sequence 1000000 --heads 8"));
    ASSERT_TRUE(writes ? made.reaches(" %  ", 2) : made.reaches([&] { return exists("big.h5.part"); }, 2))
        << made.err();
    made.send_launcher(SIGTERM);
    EXPECT_EQ(made.status(60), 1) << made.err();
    // No rank hears the signal inside fsync() or a long pwrite(). If that lasts too long, as on a busy disk, the
    // launcher kills the rank; the next run then removes what is left.
    if (count(made.err(), "annulus: error: rank 0: ended by signal TERM") == 0) {
      EXPECT_EQ(annulus(2, "generate --output big.h5 --sequence 8 --heads 1").status, 0);
      std::filesystem::remove(folder / "big.h5");
    }
    EXPECT_TRUE(files().empty()) << files()[0];
  }

  Launched measured(folder, launch(0, "plan --calibrate m.yaml"));
  ASSERT_TRUE(works(measured, 1, "m.yaml")) << measured.err();
  measured.send_launcher(SIGUSR1);
  EXPECT_EQ(measured.status(60), 75) << measured.err();
  EXPECT_TRUE(files().empty()) << files()[0];
}
#endif

TEST_F(Files, ATrainingReservesItsResultFromTheStart) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --layer 24 --sequence 53 --heads 4 --head-dim 6").status, 0);
  write("train.yaml",
        "input: {file: in.h5}\nlayer: {heads: 4}\ntrain: {steps: 1000000, rate: 0.1, checkpoint: check.h5, save_every: "
        "1000000}\noutput: {file: result.h5}\n");
  Launched run(folder, launch(2, "train train.yaml"));
  ASSERT_TRUE(works(run, 2)) << run.err();
  const Outcome second = annulus(0, "train train.yaml --set train.checkpoint=other.h5");
  EXPECT_EQ(second.status, 1) << second.err;
  EXPECT_EQ(count(second.err, "result.h5: another run makes this output already: process "), 1) << second.err;
  run.send(0, SIGINT);  // USR1 and TERM would save a checkpoint
  EXPECT_EQ(run.status(60), 1) << run.err();
  EXPECT_EQ(run.left(), 0);
  EXPECT_EQ(files(), (Names{"in.h5", "train.yaml"}));
}

TEST_F(Files, WhatKilledRanksLeaveIsRemovedByTheNextRun) {
  write("run.yaml", long_run);
  write("short.yaml", short_run);
  {
    Launched run(folder, launch(0, "run run.yaml"));
    ASSERT_TRUE(works(run, 1)) << run.err();
    run.send_launcher(SIGKILL);
    EXPECT_EQ(run.status(60), 128 + SIGKILL);
    EXPECT_EQ(temporaries(), 1);
    EXPECT_TRUE(exists("result.h5.journal"));
  }
  const Outcome next = annulus(2, "run short.yaml");
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_EQ(files(), (Names{"report.json", "result.h5", "run.yaml", "short.yaml"}));
}

TEST_F(Files, WhatIsLeftOfOtherSettingsIsRemovedToo) {
  // The killed run had finished no unit, so a run with other settings may begin anew: nothing is lost.
  write("run.yaml", long_run);
  Launched run(folder, launch(0, "run run.yaml --set compute.memory_limit=128MiB"));
  ASSERT_TRUE(works(run, 1)) << run.err();
  run.send_launcher(SIGKILL);
  run.status(60);
  const Outcome next = annulus(0, "run run.yaml --set input.generate.sequence=64 --set attention.causal=true");
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_EQ(files(), (Names{"result.h5", "run.yaml"}));
}

TEST_F(Files, ASecondRunIsRefusedAtOnce) {
  write("run.yaml", long_run);
  write("short.yaml", short_run);
  Launched first(folder, launch(0, "run run.yaml"));
  ASSERT_TRUE(works(first, 1)) << first.err();
  first.send_launcher(SIGSTOP);
  for (const auto& [ranks, more] : {std::pair(0, ""), {2, ""}, {0, " --set output.overwrite=true"}}) {
    const Outcome second = annulus(ranks, std::string("run short.yaml") + more);
    EXPECT_EQ(second.status, 1) << second.err;
    EXPECT_EQ(count(second.err, "result.h5: another run makes this output already: process "), 1) << second.err;
  }
  EXPECT_EQ(temporaries(), 1);
  first.send_launcher(SIGCONT);
  first.send_launcher(SIGTERM);
  EXPECT_EQ(first.status(60), 1) << first.err();
  EXPECT_EQ(files(), (Names{"run.yaml", "short.yaml"}));
  EXPECT_EQ(annulus(0, "run short.yaml").status, 0) << "the name is free again";
}

TEST_F(Files, AFinishedResultIsKeptWhenItsNameIsTakenMeanwhile) {
  write("run.yaml", long_run);
  // The second flush is that of the finished file. It is slow, so that on a fast machine, too, the name is taken first.
  const std::string slow =
      " env LD_PRELOAD=" ANNULUS_SLOW_CALLS " SLOW_CALL=\"a hanging fsync\" SLOW_RANK=0 SLOW_NUMBER=2 SLOW_SECONDS=5 ";
  Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + slow + launch(0, "run run.yaml --set " + smaller));
  ASSERT_TRUE(works(run, 2)) << run.err();
  EXPECT_EQ(count(run.err(), "slow: sleeps"), 0) << "an earlier flush is slow: " << run.err();
  write("result.h5", "precious");
  EXPECT_EQ(run.status(120), 1) << run.err();
  EXPECT_EQ(slurp(folder / "result.h5"), "precious");
  EXPECT_EQ(count(run.err(), "result.h5: the output exists already; "), 1) << run.err();
  const std::string words = "the finished file is kept as ";
  const auto at = run.err().find(words);
  ASSERT_NE(at, std::string::npos) << run.err();
  const std::string rest = run.err().substr(at + words.size());
  const std::string kept = rest.substr(0, rest.find('\n'));
  ASSERT_EQ(std::rename(kept.c_str(), (folder / "result.h5").c_str()), 0) << kept;
  const Outcome good = annulus(2, "verify run.yaml --rows 4 --set " + smaller);
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  EXPECT_EQ(files(), (Names{"result.h5", "run.yaml"}));
}

TEST_F(Files, APlantedLinkIsNeverFollowed) {
  // The links have the names that earlier versions of annulus gave to temporary files in a Slurm job with this number.
  write("victim", "precious");
  write("run.yaml", short_run);
  for (const char* name : {"result.h5", "in.h5"}) {
    std::filesystem::create_symlink("victim", folder / (std::string(name) + ".tmp.77"));
  }
  const std::string job = "env SLURM_JOB_ID=77 ";
  EXPECT_EQ(shell(job + launch(2, "run run.yaml")).status, 0);
  EXPECT_EQ(shell(job + launch(0, "generate --output in.h5 --sequence 8 --heads 1")).status, 0);
  EXPECT_EQ(slurp(folder / "victim"), "precious");
}

TEST_F(Files, OnlyFilesAreReplaced) {
  write("run.yaml", short_run);
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(folder / "sub");
  std::filesystem::create_symlink("fifo", folder / "link");
  const std::string over = "run run.yaml --set output.overwrite=true --set ";
  for (const auto& [name, word] : {std::pair("fifo", "is a FIFO"), {"link", "is a FIFO"}, {"sub", "is a folder"}}) {
    expect_refused(over + "output.file=" + name, 1, {word, "expected a file"}, {0, 2});
    expect_refused(over + "output.report=" + name, 1, {word, "expected a file"});
    expect_refused(fmt::format("generate --overwrite --sequence 8 --heads 1 --output {}", name), 1, {word});
    expect_refused(fmt::format("plan --overwrite --calibrate {}", name), 1, {word});
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "fifo"));
}

TEST_F(Files, WhatIsReadIsNotReplaced) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 16 --heads 1").status, 0);
  write("m.yaml", "kernel: 3\n");
  write("run.yaml", "input: {file: in.h5}\ndistribution: {machine: m.yaml}\noutput: {file: o.h5, overwrite: true}\n");
  std::filesystem::create_hard_link(folder / "in.h5", folder / "hard.h5");
  std::filesystem::create_symlink("run.yaml", folder / "link");
  for (const std::string key : {"output.file", "output.report"}) {
    const std::string set = "run run.yaml --set " + key + "=";
    expect_refused(set + "run.yaml", 2, {key + " is this run file, run.yaml"}, {0, 3});
    expect_refused(set + "link", 2, {key + " is this run file, run.yaml"});
    expect_refused(set + "in.h5", 2, {key + " is the file of input.file"});
    expect_refused(set + "hard.h5", 2, {key + " is the file of input.file"});
    expect_refused(set + "m.yaml", 2, {key + " is the file of distribution.machine"});
  }
  expect_refused("run run.yaml --set output.report=o.h5", 2, {"output.report is the file of output.file"});
  std::filesystem::create_symlink("o.h5", folder / "to_the_output");  // which does not exist yet
  expect_refused("run run.yaml --set output.report=to_the_output", 2, {"output.report is the file of output.file"});
}

TEST_F(Files, ReportAndMachineFileAreReplacedOnlyOnRequest) {
  write("run.yaml", short_run);
  write("report.json", "precious");
  expect_refused("run run.yaml", 1, {"report.json: the output exists already", "output.overwrite: true"}, {0, 2});
  EXPECT_EQ(slurp(folder / "report.json"), "precious");
  EXPECT_FALSE(exists("result.h5"));
  write("m.yaml", "precious");
  expect_refused("plan --calibrate m.yaml", 1, {"m.yaml: the output exists already", "--overwrite"}, {0, 2});
  EXPECT_EQ(slurp(folder / "m.yaml"), "precious");
  expect_refused("plan run.yaml --overwrite", 2, {"--overwrite", "--calibrate"});
  std::filesystem::create_directory(folder / "m.yaml.read-0");  // the file that it would read to measure reading
  EXPECT_EQ(annulus(0, "plan --calibrate m.yaml --overwrite").status, 0);
  EXPECT_EQ(slurp(folder / "m.yaml").find("# Machine file of annulus"), 0u);
  EXPECT_NE(slurp(folder / "m.yaml").find("# files: their reading could not be measured"), std::string::npos);
}

TEST_F(Files, AReplacedFileKeepsItsPermissions) {
  write("run.yaml", short_run);
  const auto mode = [&](const char* name) {
    struct stat about {};
    EXPECT_EQ(stat((folder / name).c_str(), &about), 0);
    return about.st_mode & 0777;
  };
  ASSERT_EQ(shell("umask 027; exec " + launch(2, "run run.yaml")).status, 0);
  EXPECT_EQ(mode("result.h5"), 0640u);
  EXPECT_EQ(mode("report.json"), 0640u);
  for (const char* name : {"result.h5", "report.json"}) chmod((folder / name).c_str(), 0600);
  ASSERT_EQ(shell("umask 022; exec " + launch(2, "run run.yaml --set output.overwrite=true")).status, 0);
  EXPECT_EQ(mode("result.h5"), 0600u);
  EXPECT_EQ(mode("report.json"), 0600u);
}

TEST_F(Files, ASweepsTableOfOtherInputIsRefused) {
  std::filesystem::create_directory(folder / "copies");
  const std::string make = "generate --output tokens.h5 --heads 2 --head-dim 8 --overwrite --sequence ";
  ASSERT_EQ(annulus(0, make + "64").status, 0);
  std::filesystem::copy(folder / "tokens.h5", folder / "copies/tokens.h5");
  write("own.yaml",
        "input: {file: tokens.h5}\nbench: {sweep: [{attention.causal: [true, false]}], repeats: 1, file: own.h5}\n");
  ASSERT_EQ(annulus(1, "bench own.yaml").status, 0);
  const std::string before = slurp(folder / "own.h5");
  EXPECT_EQ(annulus(1, "bench own.yaml --set input.file=copies/tokens.h5").status, 0) << "a copy, as on another node";
  for (const char* other : {"64 --seed 2", "96"}) {
    ASSERT_EQ(annulus(0, make + other).status, 0);
    expect_refused("bench own.yaml", 1,
                   {"own.h5: case 0 was measured with other contents of input.file: ", "give bench.file another name"});
  }
  EXPECT_EQ(slurp(folder / "own.h5"), before);
  const std::string sweep = "\"bench.sweep=[{input.file: [tokens.h5, copies/tokens.h5]}]\" --set bench.file=both.h5";
  ASSERT_EQ(annulus(1, "bench own.yaml --set " + sweep).status, 0);
  ASSERT_EQ(annulus(0, make + "64").status, 0);
  expect_refused("bench own.yaml --set " + sweep, 1,
                 {"both.h5: case 0 was measured with other contents of input.file: "});
}

TEST_F(Files, OutputThatCannotBePrintedIsAnError) {
  write("run.yaml", short_run);
  for (const std::string words : {"list", "info", "--help", "plan run.yaml", "run run.yaml", "run --dry-run run.yaml",
                                  "generate --output in.h5 --sequence 8 --heads 1"}) {
    const Outcome outcome = shell(launch(0, words) + " > /dev/full");
    EXPECT_EQ(outcome.status, 1) << words;
    EXPECT_EQ(count(outcome.err, "annulus: error: standard output: writing failed: No space left on device"), 1)
        << words << outcome.err;
  }
  // Only rank 0 prints, but its failure makes the whole launch fail.
  const Outcome launched =
      shell(fmt::format(ANNULUS_LAUNCH, 2) + " sh -c \"exec " + ANNULUS_PROGRAM + " list > /dev/full\"");
  EXPECT_EQ(launched.status, 1) << launched.err;
  EXPECT_EQ(count(launched.err, "annulus: error: standard output: writing failed"), 1) << launched.err;
  EXPECT_EQ(annulus(2, "list").status, 0);
}

// If a stream is closed, a connection of MPI could get its file descriptor, and would then get the printed text.
TEST_F(Files, OutputOntoClosedStreamsIsAnError) {
  for (const char* closed : {">&-", ">&- 2>&-", "<&- >&- 2>&-", "<&- >&-"}) {
    EXPECT_EQ(shell(launch(0, "list") + " " + closed).status, 1) << closed;
  }
  const Outcome outcome = shell(launch(0, "list") + " <&- >&-");
  EXPECT_EQ(count(outcome.err, "annulus: error: standard output: writing failed: Bad file descriptor"), 1)
      << outcome.err;
  EXPECT_EQ(shell(launch(0, "list") + " <&-").status, 0);
}

TEST_F(Files, ALongNameIsAnOrdinaryName) {
  const std::string name(192, 'x');
  write("long.yaml", "input: {generate: {sequence: 16, heads: 2, head_dim: 4}}\noutput: {file: " + name + "}\n");
  const Outcome ran = annulus(2, "run long.yaml");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(exists(name));
}

TEST_F(Files, AColonInAPathIsAnOrdinaryLetter) {
  write("colon.yaml", "input: {file: 'nfs:in.h5'}\noutput: {file: 'ufs:r.h5'}\n");
  EXPECT_EQ(annulus(0, "generate --output nfs:in.h5 --sequence 64 --heads 2 --head-dim 8").status, 0);
  const Outcome ran = annulus(2, "run colon.yaml");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(exists("ufs:r.h5"));
}

}  // namespace
}  // namespace annulus::test
