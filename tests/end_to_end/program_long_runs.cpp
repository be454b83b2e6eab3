// Runs in units (blocks of `stream`, slices of other strategies) that are killed, stopped or meet a full disk, and then
// start again: the same command computes the rest, and the bits are those of a run that was not interrupted.
#include <map>
#include <set>

#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

/// A way to divide a run into units.
struct Kind {
  const char* name;
  const char* distribution;
  const char* limit;
};
constexpr Kind kinds[] = {{"stream", "{strategy: stream}", "2MiB"}, {"slices", "{strategy: ring}", "5MiB"}};

class ProgramLongRuns : public ProgramTest, public testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml", fmt::format(R"(
input: {{generate: {{sequence: 3001, heads: 4, kv_heads: 2, head_dim: 16, batch: 2}}}}
attention: {{segments: [64, 512, all], dilations: [1, 4, 16], causal: true}}
compute: {{backward: true, reproducible: true, memory_limit: {}}}
distribution: {}
output: {{file: out.h5}}
)",
                                  GetParam().limit, GetParam().distribution));
  }

  Outcome run(int ranks, const std::string& preload = "", const std::string& arguments = "") const {
    const std::string set = preload.empty() ? "" : "env LD_PRELOAD=" ANNULUS_RECORDER " " + preload + " ";
    return shell("env OMPI_MCA_odls_base_sigkill_timeout=0 " + fmt::format(ANNULUS_LAUNCH, ranks) + " " + set +
                 ANNULUS_PROGRAM " run run.yaml " + arguments);
  }

  using Result = std::vector<std::vector<double>>;
  Result result(const std::string& file = "out.h5") const {
    Result all;
    for (const char* name : {"out", "lse", "dq", "dk", "dv"}) all.push_back(numbers(folder / file, name));
    return all;
  }
  /// The result of a run that is not interrupted. Its file is removed.
  Result undisturbed(int ranks) const {
    const Outcome outcome = run(ranks);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Result made = result();
    std::filesystem::remove(folder / "out.h5");
    return made;
  }
  void expect_finished(const Outcome& outcome, const Result& expected, const std::string& what) const {
    EXPECT_EQ(outcome.status, 0) << what << "\n" << outcome.err;
    EXPECT_EQ(files(), (std::vector<std::string>{"out.h5", "run.yaml"})) << what;
    EXPECT_TRUE(result() == expected) << what << ": other bits";
    std::filesystem::remove(folder / "out.h5");
  }

  std::vector<std::string> lines_of(const std::string& file) const {
    std::istringstream text(slurp(folder / file));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
};

/// The data of a unit are written and flushed; then the line "done" is written to the journal and flushed. When all
/// units are done, the file gets its final name. When this name is on the disk, the journal is removed.
TEST_P(ProgramLongRuns, NothingIsSaidBeforeItIsOnDisk) {
  ASSERT_EQ(run(1, "RECORD_FILE=calls.txt").status, 0);
  bool part_is_flushed = false, journal_is_flushed = true, renamed = false, name_is_flushed = false, removed = false;
  int done = 0, written = 0;
  for (const std::string& line : lines_of("calls.txt")) {
    const std::string call = line.substr(line.find(' ') + 1);
    EXPECT_FALSE(renamed && call.starts_with("write")) << call;
    if (call.starts_with("write out.h5.part")) {
      EXPECT_TRUE(journal_is_flushed) << "the previous unit is not on disk yet: " << call;
      part_is_flushed = false;
      ++written;
    } else if (call == "flush out.h5.part") {
      part_is_flushed = true;
    } else if (call.starts_with("write out.h5.journal done")) {
      EXPECT_TRUE(part_is_flushed) << call;
      journal_is_flushed = false;
      ++done;
    } else if (call.starts_with("write out.h5.journal part") || call.starts_with("write out.h5.journal record")) {
      journal_is_flushed = false;
    } else if (call == "flush out.h5.journal") {
      journal_is_flushed = true;
    } else if (call == "rename out.h5.part out.h5") {
      EXPECT_TRUE(part_is_flushed && journal_is_flushed);
      renamed = true;
    } else if (call == "flush a folder") {
      name_is_flushed = renamed;
    } else if (call == "remove out.h5.journal") {
      EXPECT_TRUE(name_is_flushed) << "the journal went before the result had its name on the disk";
      removed = true;
    }
  }
  EXPECT_GT(done, 3) << "too few units: nothing is tested";
  EXPECT_GT(written, done);
  EXPECT_TRUE(renamed && removed);
}

/// A run is killed while it lays out the file, writes, flushes, records a finished unit, completes the file or renames
/// it. Then it is continued on another number of ranks.
TEST_P(ProgramLongRuns, KilledAnywhereItGoesOn) {
  const Result expected = undisturbed(2);
  ASSERT_EQ(run(1, "RECORD_FILE=calls.txt").status, 0);
  const int calls = int(lines_of("calls.txt").size());
  std::filesystem::remove(folder / "calls.txt");
  std::filesystem::remove(folder / "out.h5");
  const int moments = std::getenv("ANNULUS_KILLS") != nullptr ? std::atoi(std::getenv("ANNULUS_KILLS")) : 6;
  for (int i = 0; i < moments; ++i) {
    // One rank makes all `calls`. Each of three ranks makes fewer, so one of them must be killed at an earlier call.
    const int ranks = i % 2 == 0 ? 1 : 3, at = 1 + int((long(i) * 7919 + 3) % (ranks == 1 ? calls : calls / 2));
    const std::string what = fmt::format("killed at call {} of {} on {} ranks", at, calls, ranks);
    const Outcome killed = run(ranks, fmt::format("RECORD_KILL={} RECORD_RANK={}", at, i % ranks));
    if (killed.status == 0) {  // it made fewer calls
      expect_finished(killed, expected, what);
      continue;
    }
    expect_finished(run(1 + i % 3), expected, what);
  }
}

TEST_P(ProgramLongRuns, AFullDiskLosesNothingThatIsFinished) {
  const Result expected = undisturbed(1);
  for (const int at : {1, 3, 6}) {
    const Outcome full = run(2, fmt::format("RECORD_FULL={}", at));
    EXPECT_EQ(full.status, 1) << full.err;
    EXPECT_NE(full.err.find("No space left on device"), std::string::npos) << full.err;
    EXPECT_FALSE(exists("out.h5"));
    if (at == 1) {
      EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml"})) << "nothing had begun";
    }
    // In the last round the launch that continues cannot print which run it continues.
    const Outcome rest = at == 6 ? annulus(0, "run run.yaml 2> /dev/full") : run(3);
    expect_finished(rest, expected, fmt::format("full from call {} on", at));
  }
}

/// The test flips the lowest bit of the first number of out, which the first unit has written.
TEST_P(ProgramLongRuns, AUnitWhoseBytesChangeOnDiskIsComputedAgain) {
  const Result expected = undisturbed(1);
  ASSERT_EQ(run(1, "RECORD_FILE=calls.txt").status, 0);
  const std::size_t calls = lines_of("calls.txt").size();
  for (const char* file : {"calls.txt", "out.h5"}) std::filesystem::remove(folder / file);
  ASSERT_NE(run(1, fmt::format("RECORD_KILL={} RECORD_RANK=0", calls * 3 / 4)).status, 0);  // in the last phase
  const std::string journal = slurp(folder / "out.h5.journal"), word = "\"out\":";
  ASSERT_EQ(count(journal, " done 0 0 "), 1) << journal;
  const long at = std::atol(journal.c_str() + journal.find(word) + word.size());
  {
    std::fstream part(folder / "out.h5.part", std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    part.seekg(at).get(byte);
    part.seekp(at).put(char(byte ^ 1));
  }
  const Outcome rest = run(3);
  EXPECT_EQ(count(rest.err, "annulus: warning: "), 1) << rest.err;
  EXPECT_EQ(count(rest.err, "out.h5.part: out of unit 0 changed on disk after it was finished\n"), 1) << rest.err;
  expect_finished(rest, expected, "a bit changed");
}

TEST_P(ProgramLongRuns, OtherSettingsAreRefusedAndRestartForgets) {
  const Result expected = undisturbed(1);
  ASSERT_EQ(run(1, "RECORD_FILE=calls.txt").status, 0);
  const std::size_t calls = lines_of("calls.txt").size();
  for (const char* file : {"calls.txt", "out.h5"}) std::filesystem::remove(folder / file);
  ASSERT_NE(run(1, fmt::format("RECORD_KILL={} RECORD_RANK=0", calls / 2)).status, 0);
  ASSERT_TRUE(exists("out.h5.journal"));
  const Outcome other = run(2, "", "--set attention.causal=false");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("attention.causal: true -> false"), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("--restart"), std::string::npos) << other.err;
  if (GetParam().name == std::string("slices")) {
    const Outcome rows = run(2, "", "--set distribution.partition=contiguous");
    EXPECT_EQ(rows.status, 1);
    EXPECT_NE(rows.err.find("distribution.partition: auto -> contiguous"), std::string::npos) << rows.err;
  }
  const Outcome device = run(1, "", "--set compute.backend=device");  // its sums have other bits
  EXPECT_EQ(device.status, 1);
  EXPECT_NE(device.err.find("compute.backend: "), std::string::npos) << device.err;
  std::vector<std::pair<std::string, std::string>> ignored{{"output.alignment=4MiB", "output.alignment: auto -> 4MiB"},
                                                           {"\"output.hints={cb_nodes: 1}\"", "output.hints: {} -> "}};
  if (GetParam().name == std::string("stream")) {
    ignored.emplace_back("distribution.block_size=100", " -> 100; go back to what it was");
    ignored.emplace_back("compute.memory_limit=1KiB", "annulus run --restart");
  }
  for (const auto& [change, words] : ignored) {
    const Outcome refused = run(2, "", "--set " + change);
    EXPECT_NE(refused.status, 0) << change;
    EXPECT_EQ(count(refused.err, words), 1) << change << "\n" << refused.err;
  }
  // A run that is refused takes nothing away.
  const std::vector<std::string> kept = files();
  write("out.h5", "of the user");
  for (const char* refused : {"--restart", "--restart --set compute.memory_limit=1KiB"}) {
    EXPECT_NE(run(2, "", refused).status, 0) << refused;
    std::vector<std::string> now = files();
    std::erase(now, "out.h5");
    EXPECT_EQ(now, kept) << refused;
  }
  std::filesystem::remove(folder / "out.h5");
  const std::string was = GetParam().name == std::string("stream") ? "stream" : "ring";
  const Outcome rest = annulus(2, "run --dry-run run.yaml --set distribution.strategy=auto");
  EXPECT_EQ(count(rest.out, "\n# an interrupted run is continued: strategy " + was), 1) << rest.out << rest.err;
  EXPECT_EQ(count(rest.out, "\n# " + was + ": "), 1) << rest.out;
  const Outcome elsewhere = annulus(2, "run --dry-run --ranks 3 run.yaml --set distribution.strategy=auto");
  EXPECT_EQ(count(elsewhere.out, "interrupted"), 0) << elsewhere.out;
  const Outcome dry = annulus(2, "run --dry-run run.yaml --set attention.causal=false");
  EXPECT_EQ(count(dry.err, "annulus: warning: a run would end at once: "), 1) << dry.err;
  EXPECT_EQ(count(dry.err, "attention.causal: true -> false"), 1) << dry.err;
  const Outcome anew = run(2, "", "--restart --set attention.causal=false");
  EXPECT_EQ(anew.status, 0) << anew.err;
  const Outcome again = run(1, "", "--restart");
  EXPECT_EQ(again.status, 1) << "the result exists, and must not be overwritten";
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"out.h5", "run.yaml"}));
  EXPECT_FALSE(result() == expected);
}

/// With these settings a unit takes some tenths of a second.
const char* const longer =
    "--set attention.segments=[all] --set attention.dilations=[1] --set input.generate.sequence=15001 --set "
    "input.generate.batch=4 --set compute.backward=false --set compute.memory_limit=8MiB ";
/// With this library each flush to disk takes half a second longer, and a unit has two: on a fast machine, too, some
/// seconds pass from the first unit to the last.
const char* const slow_flushes =
    " env LD_PRELOAD=" ANNULUS_SLOW_CALLS
    " SLOW_CALL=\"a hanging fsync\" SLOW_RANK=all SLOW_NUMBER=all SLOW_SECONDS=0.5 " ANNULUS_PROGRAM;

/// One rank gets the signal, and all ranks stop after the unit that they are computing.
TEST_P(ProgramLongRuns, StopsBehindTheUnitInHandAndGoesOn) {
  {
    Launched run(folder,
                 fmt::format(ANNULUS_LAUNCH, 2) + slow_flushes + " run run.yaml --set output.trace=t.json " + longer);
    const auto begun = [&] { return slurp(folder / "out.h5.journal").find(" done ") != std::string::npos; };
    ASSERT_TRUE(run.reaches(begun, 2)) << run.err();
    run.send(1, SIGUSR1);
    EXPECT_EQ(run.status(60), 75) << run.err();
    EXPECT_EQ(count(run.err(), "annulus: no output.trace: this launch did not complete the run\n"), 1) << run.err();
    EXPECT_FALSE(exists("t.json"));
    EXPECT_NE(run.err().find("run again to continue"), std::string::npos) << run.err();
  }
  {
    Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + slow_flushes + " run run.yaml " + longer);
    ASSERT_TRUE(run.reaches("rows", 2)) << run.err();
    const auto at_work = [&] { return count(slurp(folder / "out.h5.journal"), "rank 1 of 2") == 2; };
    ASSERT_TRUE(run.reaches(at_work, 2)) << run.err();
    run.send(1, SIGINT);
    EXPECT_EQ(run.status(60), 1) << run.err();
    const char* const line =
        "annulus: error: rank 1: ended by signal INT; what is finished stays so: run again to continue\n";
    EXPECT_EQ(count(run.err(), line), 1) << run.err();
    EXPECT_EQ(count(run.err(), "begin"), 0) << "the end of a longer line:\n" << run.err();
  }
  for (const auto& [signal, status] : {std::pair(SIGUSR1, 75), {SIGINT, 1}}) {
    // The signal comes before the run has opened the journal of the earlier launches.
    Launched run(folder, "env LD_PRELOAD=" ANNULUS_SLOW_CALLS
                         " SLOW_CALL=open SLOW_PATH=.journal SLOW_RANK=0 SLOW_SECONDS=20 " ANNULUS_PROGRAM
                         " run run.yaml " +
                             std::string(longer));
    ASSERT_TRUE(run.reaches("slow: sleeps", 1)) << run.err();
    run.send_launcher(signal);
    EXPECT_EQ(run.status(60), status) << run.err();
    EXPECT_EQ(count(run.err(), "what an earlier launch has finished stays so"), 1) << run.err();
    EXPECT_EQ(count(run.err(), "nothing was kept"), 0) << run.err();
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"out.h5.journal", "out.h5.part", "run.yaml"}));
  const Outcome rest = run(1, "", longer + std::string("--set distribution.strategy=auto"));
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_NE(rest.err.find("annulus: going on: "), std::string::npos) << rest.err;
  const std::string was = GetParam().name == std::string("stream") ? "stream" : "ring";
  EXPECT_EQ(count(rest.err, " are finished, with strategy " + was + ", as it was begun\n"), 1) << rest.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"out.h5", "run.yaml"}));
  EXPECT_EQ(annulus(1, std::string("verify run.yaml --rows 20 ") + longer).status, 0);
}

/// On a file system without locks, launches on one machine must not share units, because both would take the same.
TEST_P(ProgramLongRuns, WithoutLocksASecondLaunchIsRefused) {
  const std::string launch =
      "env LD_PRELOAD=" ANNULUS_SLOW_CALLS " SLOW_CALL=locks SLOW_RANK=0 " ANNULUS_PROGRAM " run run.yaml ";
  // Eight batch entries, so that on a fast machine, too, the first launch computes for some seconds.
  const std::string settings = longer + std::string(" --set compute.memory_limit=12MiB --set input.generate.batch=8");
  Launched first(folder, launch + settings);
  const auto begun = [&] { return slurp(folder / "out.h5.journal").find(" done ") != std::string::npos; };
  ASSERT_TRUE(first.reaches(begun, 1)) << first.err();
  first.send_launcher(SIGSTOP);
  const Outcome second = shell(launch + settings);
  first.send_launcher(SIGCONT);
  EXPECT_EQ(second.status, 1) << second.err;
  EXPECT_NE(second.err.find("this file system has no locks: wait for it"), std::string::npos) << second.err;
  EXPECT_EQ(first.status(240), 0) << first.err();
  const Outcome verified = annulus(1, "verify run.yaml --rows 20 " + settings);
  EXPECT_EQ(verified.status, 0) << verified.err;
}

/// k lies in another file, to which the input file has an external link. The input's name is not UTF-8.
TEST_F(ProgramTest, FilesThatTheInputIsMadeOfAreInputs) {
  ASSERT_EQ(annulus(0, "generate --output l\xe4t.h5 --sequence 3001 --heads 2 --head-dim 16").status, 0);
  std::filesystem::copy_file(folder / "l\xe4t.h5", folder / "parts.h5");
  const hid_t file = H5Fopen((folder / "l\xe4t.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(file, "k", H5P_DEFAULT);
  EXPECT_GE(H5Lcreate_external("parts.h5", "k", file, "k", H5P_DEFAULT, H5P_DEFAULT), 0);
  H5Fclose(file);
  write("run.yaml",
        "input: {file: \"l\xe4t.h5\"}"
        R"(
compute: {memory_limit: 2MiB}
distribution: {strategy: stream}
output: {file: out.h5, overwrite: true}
)");
  for (const int ranks : {0, 2}) {
    const Outcome lost = annulus(ranks, "run run.yaml --set output.file=" + (folder / "parts.h5").string());
    EXPECT_EQ(lost.status, 2) << lost.err;
    EXPECT_NE(lost.err.find("output.file is the file of a dataset of input.file, "), std::string::npos) << lost.err;
    EXPECT_NE(lost.err.find("parts.h5"), std::string::npos) << lost.err;
  }
  const std::string preload = "env LD_PRELOAD=" ANNULUS_RECORDER " ";
  ASSERT_EQ(shell(preload + "RECORD_FILE=calls.txt " ANNULUS_PROGRAM " run run.yaml").status, 0);
  EXPECT_EQ(annulus(1, "verify run.yaml --rows 20").status, 0) << "k is read from its file";
  const std::string calls = slurp(folder / "calls.txt");
  const auto kill_at = std::count(calls.begin(), calls.end(), '\n') / 2;
  ASSERT_NE(
      shell(preload + fmt::format("RECORD_KILL={} RECORD_RANK=0 ", kill_at) + ANNULUS_PROGRAM " run run.yaml").status,
      0);
  ASSERT_TRUE(exists("out.h5.journal"));
  spoil(folder / "parts.h5", "/k", 2000 * 32, 1);
  const Outcome mixed = annulus(0, "run run.yaml");
  EXPECT_EQ(mixed.status, 1) << mixed.err;
  EXPECT_NE(mixed.err.find("parts.h5: \"inode"), std::string::npos) << mixed.err;
  EXPECT_EQ(mixed.err.find("input.file: "), std::string::npos) << mixed.err;
}

/// A line of a sweep says that a case begins or is finished. Each line is on the disk before the next is written.
TEST_F(ProgramTest, NothingFollowsALineThatIsNotOnDisk) {
  write("deck.yaml", R"(
input: {generate: {sequence: 64, heads: 1, head_dim: 8}}
bench: {sweep: [{attention.causal: [true, false]}], repeats: 1, file: sweep.h5}
)");
  const std::string preload = " env LD_PRELOAD=" ANNULUS_RECORDER " RECORD_FILE=calls.txt ";
  const Outcome ran = shell(fmt::format(ANNULUS_LAUNCH, 1) + preload + ANNULUS_PROGRAM " bench deck.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::istringstream calls(slurp(folder / "calls.txt"));
  int written = 0;
  bool is_flushed = true;
  for (std::string call; std::getline(calls, call);) {
    if (call.find(".jsonl") == std::string::npos) continue;
    const bool writes = call.find(" write ") != std::string::npos;
    EXPECT_TRUE(is_flushed || !writes) << call;
    written += writes;
    is_flushed = !writes;
  }
  EXPECT_TRUE(is_flushed);
  EXPECT_GE(written, 3) << "less than a line for the sweep and one for each case";
}

/// The tables of a sweep are written under a temporary name. They get their own names when they are on the disk.
TEST_F(ProgramTest, ATableThatHasItsNameIsOnTheDisk) {
  write("deck.yaml", R"(
input: {generate: {sequence: 64, heads: 1, head_dim: 8}}
bench: {sweep: [{attention.causal: [true, false]}], repeats: 1, file: sweep.h5, json: sweep.json}
)");
  const std::string preload = " env LD_PRELOAD=" ANNULUS_RECORDER " RECORD_FILE=calls.txt ";
  ASSERT_EQ(shell(fmt::format(ANNULUS_LAUNCH, 1) + preload + ANNULUS_PROGRAM " bench deck.yaml").status, 0);
  std::istringstream calls(slurp(folder / "calls.txt"));
  std::map<std::string, bool> is_flushed;  // for each temporary file that was written
  std::set<std::string> named;
  bool is_folder_flushed = true;
  for (std::string line; std::getline(calls, line);) {
    std::string process, call, file, detail;
    std::istringstream(line) >> process >> call >> file >> detail;
    if (line.ends_with("flush a folder")) is_folder_flushed = true;
    if (file.find(".tmp.") == file.npos) continue;
    if (call == "write") is_flushed[file] = false;
    if (call == "flush") is_flushed[file] = true;
    if (call == "rename" || call == "replace") {
      EXPECT_TRUE(is_flushed.contains(file) && is_flushed[file]) << line;
      named.insert(detail);
      is_folder_flushed = false;
    }
  }
  EXPECT_TRUE(is_folder_flushed);
  EXPECT_EQ(named, (std::set<std::string>{"sweep.h5", "sweep.json"}));
}

INSTANTIATE_TEST_SUITE_P(, ProgramLongRuns, testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace annulus::test
