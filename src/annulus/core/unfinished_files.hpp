// Files that are being made, so that a process that must end at once takes them along: a table of fixed size that a
// signal handler may read.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>

namespace annulus::core {

/// Which file a name stands for: the same device and inode are the same file.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Whichever file has the name: for names that no other process makes.
inline constexpr FileIdentity any_file{};

/// Notes a file until it is forgotten; returns its number in the table. -1 when the table is full or the path too long:
/// the file then stays behind when the process is ended from outside. From one thread only.
int note_unfinished_file(const std::string& path, FileIdentity identity);
/// The file is finished, removed, or somebody else's business. -1 is allowed.
void forget_unfinished_file(int number);

/// Covers the time from the making of a file to its note, in which a signal that ends this process would leave the
/// file. While a scope lives, signals wait in this thread, and remove_unfinished_files() in other threads, a second at
/// most. One at a time.
class MakingScope {
 public:
  MakingScope();
  ~MakingScope();
  MakingScope(const MakingScope&) = delete;
  MakingScope& operator=(const MakingScope&) = delete;

 private:
  sigset_t before_;
};

/// Removes the files noted, each if its name still stands for the file that was noted. Async-signal-safe.
void remove_unfinished_files() noexcept;

/// The same, waiting `seconds` for it at most: a file system that hangs must not keep a job from ending.
void remove_unfinished_files_within(double seconds) noexcept;

}  // namespace annulus::core
