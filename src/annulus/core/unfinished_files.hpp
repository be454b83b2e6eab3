// Notes which files are being written, so that a process that must end at once can remove them. The notes are a table
// of fixed size, so that a signal handler may read them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>

namespace annulus::core {

/// Identifies a file: names with the same device and inode mean the same file.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Notes a file until forget_unfinished_file() is called, and returns the file's number in the table. Returns -1 if the
/// table is full or the path is too long. Then the file is not removed if a signal ends the process. Only one thread
/// may call this.
int note_unfinished_file(const std::string& path, FileIdentity identity);
/// Call this when the file is finished or removed, or when this process must no longer remove it. -1 is allowed.
void forget_unfinished_file(int number);

/// A MakingScope must live from before a file is created until note_unfinished_file() has returned. Without a scope, a
/// signal that ended this process in between would leave the file behind. While a scope lives, signals to this thread
/// wait. remove_unfinished_files() in other threads waits, too, but for at most a second. Only one scope may live at a
/// time.
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

/// Calls remove_unfinished_files() in a new thread, and waits for at most `seconds`, because a job must end even if a
/// file system hangs.
void remove_unfinished_files_within(double seconds) noexcept;

}  // namespace annulus::core
