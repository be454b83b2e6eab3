// Notes which files are being written, so that a process that must end at once can remove them. The notes are a table
// of fixed size, so that a signal handler may read them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>

namespace annulus::core {

/// Which file a name refers to: the same device and inode mean the same file.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Stands for any file with the noted name: for names that no other process uses.
inline constexpr FileIdentity any_file{};

/// Notes a file until it is forgotten; returns its number in the table. Returns -1 if the table is full or the path is
/// too long: then the file is not removed if a signal ends the process. Only one thread may call this.
int note_unfinished_file(const std::string& path, FileIdentity identity);
/// Call it when the file is finished or removed, or when it is no longer ours to remove. -1 is allowed.
void forget_unfinished_file(int number);

/// Covers the time between the creation of a file and note_unfinished_file(): a signal that ended this process in
/// between would leave the file. While a scope lives, signals wait in this thread, and remove_unfinished_files() waits
/// in other threads, for at most a second. Only one scope may live at a time.
class MakingScope {
 public:
  MakingScope();
  ~MakingScope();
  MakingScope(const MakingScope&) = delete;
  MakingScope& operator=(const MakingScope&) = delete;

 private:
  sigset_t before_;
};

/// Removes each noted file whose name still refers to the file that was noted. Async-signal-safe.
void remove_unfinished_files() noexcept;

/// The same, but it waits at most `seconds`: a file system that hangs must not keep a job from ending.
void remove_unfinished_files_within(double seconds) noexcept;

}  // namespace annulus::core
