#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "annulus/core/unfinished_files.hpp"

namespace annulus::core {
namespace {

class UnfinishedFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "annulus-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string make(const std::string& name) const {
    std::ofstream(folder / name) << name;
    return folder / name;
  }
  static FileIdentity identity(const std::string& path) {
    struct stat about {};
    EXPECT_EQ(lstat(path.c_str(), &about), 0);
    return {about.st_dev, about.st_ino};
  }
  std::filesystem::path folder;
};

TEST_F(UnfinishedFiles, AreRemovedUnlessForgotten) {
  const std::string kept = make("kept"), first = make("first"), second = make("second");
  const int one = note_unfinished_file(kept, identity(kept));
  const int two = note_unfinished_file(first, identity(first));
  forget_unfinished_file(one);
  const int three = note_unfinished_file(second, identity(second));  // reuses the entry of `kept`
  remove_unfinished_files();
  EXPECT_TRUE(std::filesystem::exists(kept));
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_FALSE(std::filesystem::exists(second));
  forget_unfinished_file(two);
  forget_unfinished_file(three);
}

TEST_F(UnfinishedFiles, ANameThatBelongsToAnotherFileNowIsLeftAlone) {
  const std::string path = make("file"), other = make("other");
  const int noted = note_unfinished_file(path, identity(path));
  std::filesystem::rename(other, path);
  remove_unfinished_files();
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
  remove_unfinished_files();  // a missing file is no error
  forget_unfinished_file(noted);
}

TEST_F(UnfinishedFiles, WithinATimeTheyAreRemovedAsWell) {
  const std::string path = make("file");
  const int noted = note_unfinished_file(path, identity(path));
  remove_unfinished_files_within(60);
  EXPECT_FALSE(std::filesystem::exists(path));
  forget_unfinished_file(noted);
}

// A file exists before it can be noted, and meanwhile a signal may arrive on any thread.
TEST_F(UnfinishedFiles, OneThatIsJustBeingMadeIsWaitedFor) {
  const std::string path = (folder / "file").string();
  // remove_unfinished_files() waits at most a second. If a busy machine took longer to make the file, the test repeats.
  for (bool is_in_time = false; !is_in_time;) {
    std::optional<MakingScope> making(std::in_place);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(900);
    std::thread ends([] { remove_unfinished_files(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    make("file");
    const int noted = note_unfinished_file(path, identity(path));
    making.reset();
    is_in_time = std::chrono::steady_clock::now() < end;
    ends.join();
    EXPECT_TRUE(!is_in_time || !std::filesystem::exists(path));
    forget_unfinished_file(noted);
  }
}

TEST_F(UnfinishedFiles, OneThatIsNeverMadeIsNotWaitedForForEver) {
  const std::string path = make("file");
  const int noted = note_unfinished_file(path, identity(path));
  const MakingScope hangs;
  std::thread ends([] { remove_unfinished_files(); });
  ends.join();
  EXPECT_FALSE(std::filesystem::exists(path));
  forget_unfinished_file(noted);
}

TEST_F(UnfinishedFiles, SignalsWaitWhileOneIsMade) {
  static volatile std::sig_atomic_t heard = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { heard = heard + 1; };
  sigaction(SIGUSR1, &action, &before);
  {
    const MakingScope making;
    raise(SIGUSR1);
    EXPECT_EQ(heard, 0);
  }
  EXPECT_EQ(heard, 1);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(UnfinishedFiles, AFullTableAndALongPathAreRefusedAndTheTableStaysGood) {
  EXPECT_EQ(note_unfinished_file(std::string(5000, 'x'), {}), -1);
  std::vector<int> numbers;
  const std::string path = make("file");
  for (int number = note_unfinished_file(path, identity(path)); number >= 0;
       number = note_unfinished_file(path, identity(path))) {
    ASSERT_LT(numbers.size(), 1000u);
    numbers.push_back(number);
  }
  EXPECT_GE(numbers.size(), 8u);
  forget_unfinished_file(-1);
  forget_unfinished_file(numbers.back());
  EXPECT_EQ(note_unfinished_file(path, identity(path)), numbers.back());
  for (const int number : numbers) forget_unfinished_file(number);
  remove_unfinished_files();
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace annulus::core
