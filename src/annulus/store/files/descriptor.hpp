// An open file that closes itself, and knows which file it is; locks on single bytes of it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <optional>
#include <string>

#include "annulus/core/unfinished_files.hpp"

namespace annulus::store {

/// What is there instead of a regular file, in words: "a folder", "a FIFO".
const char* kind_of_file(const struct stat& about);

class Descriptor {
 public:
  Descriptor() = default;
  /// Opens; the file is not handed on to programs that this one starts. Throws Error(failure).
  Descriptor(const std::string& path, int flags, mode_t mode = 0);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  int id() const { return id_; }
  /// Closes it now; 0 or the error's number.
  int close();
  core::FileIdentity identity() const;
  /// The path stands for this file and not for a link to it.
  bool is_named(const std::string& path) const;

 private:
  int id_ = -1;
};

/// Whether the file system has locks.
bool has_locks(const Descriptor& file);

/// Locks byte `byte` of a file while it lives, on this machine and on others, and ends with the process that holds it.
/// Other descriptors of this process count as others.
class ByteLock {
 public:
  /// Waits for it. Throws Error(failure) when the file system refuses.
  ByteLock(const Descriptor& file, long long byte);
  ~ByteLock();
  ByteLock(ByteLock&& other) noexcept;
  ByteLock(const ByteLock&) = delete;
  ByteLock& operator=(const ByteLock&) = delete;
  ByteLock& operator=(ByteLock&&) = delete;

  /// Nothing where another has it.
  static std::optional<ByteLock> without_waiting(const Descriptor& file, long long byte);

 private:
  ByteLock(int file, long long byte) : file_(file), byte_(byte) {}

  int file_;
  long long byte_;
};

/// Another has the byte.
bool is_locked(const Descriptor& file, long long byte);

}  // namespace annulus::store
