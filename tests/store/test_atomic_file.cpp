// How files are put in place: new ones, replaced ones, ones that may not be replaced, and what dead processes left.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "annulus/core/error.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/atomic_file.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/files/process_name.hpp"
#include "support/scratch.hpp"

namespace annulus::store {
namespace {

using Names = std::vector<std::string>;

class AtomicFiles : public testing::Test {
 protected:
  Names names() const {
    Names found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string make(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  static std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static mode_t mode_of(const std::string& path) {
    struct stat about {};
    stat(path.c_str(), &about);
    return about.st_mode & 07777;
  }
  /// The message with which `work` fails.
  template <class Work>
  static std::string error(Work&& work) {
    try {
      work();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::failure);
      return error.what();
    }
    return "no error";
  }
  static void put(const std::string& path, bool overwrite, const std::string& text) {
    AtomicFile file(path, overwrite);
    file.write(text.substr(0, 1));
    file.write(text.substr(1));
    file.publish();
  }
  /// Runs `work` in a child process, which ends without cleaning up, as if it had been killed; returns its process id.
  template <class Work>
  static pid_t in_a_process_that_dies(Work&& work) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    return child;
  }

  test::ScratchFolder folder;
  std::string path = folder / "out";
};

TEST_F(AtomicFiles, AreAsideUntilTheyArePublished) {
  {
    AtomicFile file(path, true);
    ASSERT_EQ(names().size(), 1u);
    EXPECT_EQ(names()[0].find("out.tmp."), 0u) << names()[0];
    EXPECT_EQ(folder / names()[0], file.unfinished().path());
    file.write("content");
    EXPECT_EQ(names().size(), 1u);
    file.publish();
    EXPECT_EQ(names(), Names{"out"});
  }
  EXPECT_EQ(content_of(path), "content");
  { const AtomicFile given_up(path, true); }
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(AtomicFiles, TwoOfOneProcessDoNotShareATemporaryFile) {
  AtomicFile first(path, true), second(path, true);
  EXPECT_NE(first.unfinished().path(), second.unfinished().path());
  second.write("second");
  second.publish();
  first.write("first");
  first.publish();
  EXPECT_EQ(content_of(path), "first");
}

TEST_F(AtomicFiles, HandOnPermissions) {
  const mode_t mask = umask(027);
  put(path, false, "new");
  EXPECT_EQ(mode_of(path), 0640u);
  chmod(path.c_str(), 0600);
  {
    AtomicFile file(path, true);
    EXPECT_EQ(mode_of(file.unfinished().path()), 0600u) << "no other user may read it unfinished";
    file.write("again");
    file.publish();
  }
  EXPECT_EQ(mode_of(path), 0600u);
  chmod(path.c_str(), 0464);
  put(path, true, "again");
  EXPECT_EQ(mode_of(path), 0464u);
  {
    AtomicFile file(path, true);
    unlink(path.c_str());
    file.publish();
  }
  EXPECT_EQ(mode_of(path), 0640u) << "it replaces no file";
  umask(mask);
}

TEST_F(AtomicFiles, LinksKeepPointingWhereTheyPoint) {
  std::filesystem::create_directory(folder / "scratch");
  make("scratch/real", "old");
  std::filesystem::create_symlink("scratch/real", folder / "hop");
  std::filesystem::create_symlink(folder / "hop", path);
  EXPECT_EQ(runfile::follow_links(path), std::filesystem::canonical(folder / "scratch/real"));
  put(path, true, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "hop"));
  EXPECT_EQ(content_of(folder / "scratch/real"), "new");

  std::filesystem::create_symlink("scratch/absent", folder / "dangling");
  put(folder / "dangling", false, "made");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "dangling"));
  EXPECT_EQ(content_of(folder / "scratch/absent"), "made");

  std::filesystem::create_symlink("round", folder / "round");
  EXPECT_EQ(error([&] { AtomicFile(folder / "round", true); }),
            folder / "round: too many links behind this name, expected at most 40");
  EXPECT_EQ(names(), (Names{"dangling", "hop", "out", "round", "scratch"}));
}

TEST_F(AtomicFiles, ReplaceOnlyFiles) {
  std::filesystem::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  sockaddr_un address{AF_UNIX, {}};
  (folder / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket_id = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket_id, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(socket_id);
  const Names before = names();
  for (const bool overwrite : {false, true}) {
    for (const auto& [name, word] : {std::pair("folder", "a folder"), {"fifo", "a FIFO"}, {"socket", "a socket"}}) {
      std::filesystem::remove(path);
      std::filesystem::create_symlink(name, path);  // `path` is a link, `real` is not
      const std::string real = runfile::follow_links(path);
      const std::string expected = real + ": is " + word + ", expected a file";
      EXPECT_EQ(error([&] { AtomicFile(real, overwrite); }), expected);
      EXPECT_EQ(error([&] { AtomicFile(path, overwrite); }), expected);
    }
  }
  EXPECT_EQ(error([&] { check_can_be_made("/dev/null", true); }), "/dev/null: is a device, expected a file");
  std::filesystem::remove(path);
  EXPECT_EQ(names(), before);
  make("out", "precious");
  EXPECT_EQ(error([&] { AtomicFile(path, false); }).find(path + ": the output exists already; set "), 0u);
  EXPECT_EQ(content_of(path), "precious");
}

TEST_F(AtomicFiles, AreKeptWhenTheirNameIsTakenMeanwhile) {
  const auto kept_file = [&](const std::string& message) {
    const std::string words = "; the finished file is kept as ";
    const auto at = message.find(words);
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? "" : message.substr(at + words.size());
  };
  std::string message;
  {
    AtomicFile file(path, false);
    file.write("hours of work");
    make("out", "precious");
    message = error([&] { file.publish(); });
  }
  EXPECT_EQ(message.find(path + ": the output exists already; "), 0u) << message;
  EXPECT_EQ(content_of(kept_file(message)), "hours of work");
  EXPECT_EQ(content_of(path), "precious");
  EXPECT_EQ(names().size(), 2u);
  std::filesystem::remove(kept_file(message));
  {
    AtomicFile file(path, true);
    file.write("hours of work");
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    message = error([&] { file.publish(); });
  }
  EXPECT_EQ(message.find(path + ": is a FIFO"), 0u) << message;
  EXPECT_EQ(content_of(kept_file(message)), "hours of work");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST_F(AtomicFiles, AnExchangedTemporaryFileIsLeftAlone) {
  make("victim", "precious");
  std::string aside;
  {
    AtomicFile file(path, true);
    aside = file.unfinished().path();
    std::filesystem::rename(aside, folder / "stolen");
    EXPECT_NE(error([&] { file.write("x"); }).find(aside + ": the file that was made under this name (inode "),
              std::string::npos);
    std::filesystem::create_symlink("victim", aside);
    const std::string changed = aside + ": is no longer the file that was made under this name: inode ";
    EXPECT_EQ(error([&] { file.write("x"); }).find(changed), 0u);
    EXPECT_EQ(error([&] { file.publish(); }).find(changed), 0u);
  }
  EXPECT_EQ(content_of(folder / "victim"), "precious");
  EXPECT_TRUE(std::filesystem::is_symlink(aside));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(AtomicFiles, ADeadProcessLeavesNothingForLong) {
  for (const bool overwrite : {false, true}) {
    in_a_process_that_dies([&] {
      AtomicFile file(path, false);
      file.write("half");
      _exit(0);
    });
    EXPECT_EQ(names().size(), 1u) << "its temporary file";
    put(path, overwrite, "whole");
    EXPECT_EQ(names(), Names{"out"});
    std::filesystem::remove(path);
  }
}

TEST_F(AtomicFiles, OnlyWhatDeadProcessesOfThisMachineLeftIsRemoved) {
  std::string dead;
  // The name that the child would give a temporary file. It contains the child's process id and start time.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = in_a_process_that_dies([&] {
    const std::string name = temporary_name(path);
    (void)!write(ends[1], name.data(), name.size());
  });
  char name[4096];
  dead = std::string(name, std::size_t(std::max<ssize_t>(0, read(ends[0], name, sizeof name))));
  close(ends[0]), close(ends[1]);
  ASSERT_NE(dead.find("." + std::to_string(child) + "-"), std::string::npos) << dead;
  const std::string alive = temporary_name(path);
  const std::string process = "." + std::to_string(getpid()) + "-";
  const auto replaced = [](std::string text, const std::string& what, const std::string& by) {
    return text.replace(text.find(what), what.size(), by);
  };
  const std::string reborn = replaced(alive, process, process + "9");  // the same process id, another start time
  const std::string machine = alive.substr(alive.find(".tmp.") + 5, 12);
  const std::string elsewhere = replaced(dead, machine, "0123456789ab");
  const std::string other_file = replaced(dead, "out.tmp.", "out2.tmp.");
  Names stay{alive, elsewhere, other_file, path + ".tmp.12345", path + ".tmp." + machine + ".x-1.0123456789abcdef"};
  for (const std::string& file : stay) std::ofstream(file) << "half";
  for (const std::string& file : {dead, reborn}) std::ofstream(file) << "half";

  const auto ahead = std::filesystem::file_time_type::clock::now() + std::chrono::hours(1);
  std::filesystem::last_write_time(elsewhere, ahead);  // as if made on a machine whose clock is ahead
  const auto said_while_made = [&] {
    testing::internal::CaptureStderr();
    put(path, true, "whole");
    return testing::internal::GetCapturedStderr();
  };
  const std::string said = said_while_made();
  const std::string words =
      ": 4 bytes, written 0 minutes ago by a process of another machine or container, or from before a reboot; ";
  EXPECT_EQ(said.find("annulus: warning: " + elsewhere + words), 0u) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(said_while_made(), "") << "a checkpoint is made many times; its user has read it";
  for (const std::string& file : {dead, reborn}) EXPECT_FALSE(std::filesystem::exists(file)) << file;
  for (const std::string& file : stay) EXPECT_TRUE(std::filesystem::exists(file)) << file;
}

TEST_F(AtomicFiles, AProcessThatNobodyWaitedForIsDead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string name = temporary_name(path);
    (void)!write(ends[1], name.data(), name.size());
    _exit(0);
  }
  char name[4096];
  const std::string left(name, std::size_t(std::max<ssize_t>(0, read(ends[0], name, sizeof name))));
  close(ends[0]), close(ends[1]);
  siginfo_t about;
  ASSERT_EQ(waitid(P_PID, id_t(child), &about, WEXITED | WNOWAIT), 0);  // it has ended, but is a zombie
  std::ofstream(left) << "half";
  put(path, true, "whole");
  EXPECT_FALSE(std::filesystem::exists(left)) << left;
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace annulus::store
