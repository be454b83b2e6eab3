// The journal of a long run: which of its lines count, however the processes that wrote it ended.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>

#include "annulus/core/error.hpp"
#include "annulus/store/journal.hpp"
#include "support/scratch.hpp"

namespace annulus::store {
namespace {

using test::ScratchFolder;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

void begin(Journal& journal) {
  Journal::Lock lock(journal);
  lock.begin_anew();
  lock.write("head {\"a\":1}");
  lock.write("part {\"b\":2}");
  lock.flush();
}

/// Two launches find the journal of a run that was killed. One launch begins the journal anew after the other has read
/// it.
TEST(Journal, TheFirstLockReadsWhatAnotherLaunchHasBegunAnew) {
  for (const int claims : {0, 40}) {  // the new journal is shorter, or longer, than the old one with its 10 claims
    const ScratchFolder folder;
    const std::string path = folder / "out.h5.journal";
    const auto write = [&](Journal& journal, const std::string& head, int count) {
      Journal::Lock lock(journal);
      lock.begin_anew();
      lock.write("head " + head);
      lock.write("part {}");
      for (int unit = 0; unit < count; ++unit) lock.write(fmt::format("claim 0 {} {}", unit, 7 << 20));
    };
    Journal killed(path), first(path);
    write(killed, "{\"a\":1}", 10);
    Journal second(path);
    EXPECT_EQ(second.head(), "{\"a\":1}");
    write(first, "{\"a\":2}", claims);
    { const Journal::Lock lock(second); }
    EXPECT_EQ(second.head(), "{\"a\":2}") << claims;
  }
}

TEST(Journal, SaysWhatWasWritten) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  EXPECT_FALSE(Journal::find(path).has_value());
  Journal one(path);
  EXPECT_TRUE(one.is_empty());
  EXPECT_FALSE(Journal::find(path).has_value()) << "without a head it says nothing";
  begin(one);
  one.sign_on({7 << 20, 3, "process 1"});
  {
    Journal::Lock lock(one);
    lock.write("claim 0 3 " + std::to_string(7 << 20));
    lock.write("claim 1 0 " + std::to_string(7 << 20));
    lock.write("done 1 0");
    lock.write("stop 99");
  }
  const std::optional<Journal> other = Journal::find(path);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->head(), "{\"a\":1}");
  EXPECT_EQ(other->part(), "{\"b\":2}");
  EXPECT_TRUE(other->is_done({1, 0}));
  EXPECT_FALSE(other->is_done({0, 3}));
  EXPECT_TRUE(other->is_claimed({0, 3}));
  EXPECT_FALSE(other->is_claimed({1, 0})) << "it is finished";
  EXPECT_EQ(other->done_in(0), 0);
  EXPECT_EQ(other->done_in(1), 1);
  EXPECT_TRUE(other->is_stopped(99));
  EXPECT_FALSE(other->is_stopped(98));
  EXPECT_EQ(other->worker(), "process 1");
  EXPECT_FALSE(other->worker(3).has_value()) << "it belongs to launch 3";
}

TEST(Journal, AUnitThatIsToBeDoneAgainTakesLaterPhasesWithIt) {
  const ScratchFolder folder;
  Journal journal(folder / "out.h5.journal");
  begin(journal);
  journal.sign_on({7 << 20, 3, "process 1"});
  Journal::Lock lock(journal);
  for (const char* unit : {"0 0", "0 1", "1 0"}) {
    lock.write(fmt::format("claim {} {}", unit, 7 << 20));
    lock.write(fmt::format("check {} out 9 0", unit));
    lock.write(fmt::format("done {} a note", unit));
  }
  EXPECT_EQ(journal.checks(),
            (std::map<Unit, std::string>{{{0, 0}, "out 9 0"}, {{0, 1}, "out 9 0"}, {{1, 0}, "out 9 0"}}));
  lock.write("again 0 0");
  for (const auto& [unit, is_done] : {std::pair(Unit{0, 0}, false), {{0, 1}, true}, {{1, 0}, false}}) {
    EXPECT_EQ(journal.is_done(unit), is_done) << unit.phase << " " << unit.index;
    EXPECT_FALSE(journal.is_claimed(unit)) << unit.phase << " " << unit.index;
  }
  lock.write("done 0 0");
  EXPECT_EQ(journal.checks().size(), 2u);
}

TEST(Journal, ClaimsEndWithTheirProcess) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  Journal journal(path);
  begin(journal);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    Journal theirs(path);
    theirs.sign_on({std::uint64_t(5) << 20, 4, "the child"});
    Journal::Lock(theirs).write("claim 0 0 " + std::to_string(5 << 20));
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char one = 0;
  ASSERT_EQ(read(ready[0], &one, 1), 1);
  { const Journal::Lock lock(journal); }
  EXPECT_TRUE(journal.is_claimed({0, 0}));
  EXPECT_TRUE(journal.worker().has_value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(journal.is_claimed({0, 0}));
  EXPECT_FALSE(journal.worker().has_value());
  close(ready[0]);
  close(ready[1]);
}

TEST(Journal, WhatAKilledProcessLeftOfALineCountsForNothing) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  {
    Journal journal(path);
    begin(journal);
    Journal::Lock(journal).write("done 0 12");
  }
  const std::string whole = content(path);
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    put(path, whole.substr(0, cut));
    Journal journal(path);
    EXPECT_FALSE(journal.is_done({0, 12})) << cut;
    EXPECT_FALSE(journal.is_done({0, 1})) << cut;
    {
      Journal::Lock lock(journal);
      if (journal.is_empty()) lock.begin_anew();
      lock.write("head {\"c\":3}");
      lock.write("part {}");
      lock.write("done 0 5");
    }
    EXPECT_TRUE(journal.is_done({0, 5})) << cut;
    const std::optional<Journal> again = Journal::find(path);
    ASSERT_TRUE(again.has_value()) << cut;
    EXPECT_TRUE(again->is_done({0, 5})) << cut;
    EXPECT_EQ(again->head(), "{\"c\":3}");
  }
  std::string other = whole;
  other[other.size() - 2] = '3';  // "done 0 13" with the checksum of "done 0 12"
  put(path, other);
  EXPECT_FALSE(Journal(path).is_done({0, 13}));
}

TEST(Journal, OthersFilesAreLeftAlone) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  for (const std::string text : {"my notes", "my notes\n", "deadbeef notes\n", "12345678 head x", "x"}) {
    put(path, text);
    EXPECT_NE(error_of([&] { Journal journal(path); }).find("is in the way"), std::string::npos) << text;
    EXPECT_EQ(content(path), text);
  }
  std::filesystem::remove(path);
  put(folder / "elsewhere", "");
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_NE(error_of([&] { Journal journal(path); }).find("it is a link"), std::string::npos);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_NE(error_of([&] { Journal journal(path); }), "");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { Journal journal(path); }).find("FIFO"), std::string::npos);
}

/// A journal that is damaged must not be taken for an empty file, which a run would overwrite.
TEST(Journal, ADamagedOneIsLeftAlone) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  {
    Journal journal(path);
    begin(journal);
  }
  std::string damaged = content(path);
  damaged.insert(damaged.find('\n'), "\r");
  put(path, damaged);
  EXPECT_NE(error_of([&] { Journal journal(path); }).find("is damaged"), std::string::npos);
  EXPECT_NE(error_of([&] { Journal::find(path); }).find("is damaged"), std::string::npos);
  EXPECT_EQ(content(path), damaged);
}

/// Without this error, the units that the journal recorded as finished would be computed again and again.
TEST(Journal, OneThatIsCutShortMeanwhileIsNoticed) {
  const ScratchFolder folder;
  Journal journal(folder / "out.h5.journal");
  begin(journal);
  journal.sign_on({7 << 20, 3, "process 1"});
  put(folder / "out.h5.journal", "");
  EXPECT_NE(error_of([&] { Journal::Lock lock(journal); }).find("was cut short"), std::string::npos);
}

TEST(Journal, OneThatIsReplacedMeanwhileIsNoticed) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  Journal journal(path);
  begin(journal);
  std::filesystem::remove(path);
  EXPECT_NE(error_of([&] { Journal::Lock lock(journal); }).find("removed or replaced"), std::string::npos);
  put(path, "");
  EXPECT_NE(error_of([&] { Journal::Lock lock(journal); }).find("removed or replaced"), std::string::npos);
}

TEST(Journal, TurnsOfManyProcessesDoNotMix) {
  const ScratchFolder folder;
  const std::string path = folder / "out.h5.journal";
  {
    Journal journal(path);
    begin(journal);
  }
  constexpr int processes = 4, units = 200;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = fork();
    if (child == 0) {  // takes free units until there are none
      Journal mine(path);
      mine.sign_on({std::uint64_t(p + 1) << 20, 5, "child"});
      int taken = 0;
      for (bool found = true; found;) {
        found = false;
        Journal::Lock lock(mine);
        for (int u = 0; u < units && !found; ++u) {
          if (mine.is_done({0, u})) continue;
          lock.write(fmt::format("claim 0 {} {}", u, mine.self()));
          lock.write(fmt::format("done 0 {}", u));
          lock.write(fmt::format("claim 1 {} {}", u, p));
          found = true;
          ++taken;
        }
      }
      _exit(taken > units ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Journal(path).done_in(0), units);
  std::istringstream lines(content(path));
  std::set<std::string> claimed;
  int claims = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(" claim 0 ");
    if (at == std::string::npos) continue;
    ++claims;
    claimed.insert(line.substr(at + 9, line.find(' ', at + 9) - at - 9));
  }
  EXPECT_EQ(claims, units) << "no unit was taken twice";
  EXPECT_EQ(int(claimed.size()), units);
}

}  // namespace
}  // namespace annulus::store
