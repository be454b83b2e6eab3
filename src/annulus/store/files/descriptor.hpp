// Opens files, closes them when their objects end, checks whether a path leads to them, and locks single bytes of them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <optional>
#include <string>

#include "annulus/core/unfinished_files.hpp"

namespace annulus::store {

/// Describes something that is not a regular file: "a folder", "a FIFO".
const char* kind_of_file(const struct stat& about);

class Descriptor {
 public:
  Descriptor() = default;
  /// Opens the file. Programs that this program starts do not inherit the descriptor. Throws Error(failure).
  Descriptor(const std::string& path, int flags, mode_t mode = 0);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  int id() const { return id_; }
  /// Closes the file now. Returns 0 or the error's number.
  int close();
  core::FileIdentity identity() const;
  /// True if the path leads to this file and is not a link to it.
  bool is_named(const std::string& path) const;

 private:
  int id_ = -1;
};

/// True if the file system supports locks.
bool has_locks(const Descriptor& file);

/// Locks byte `byte` of a file. While it is locked, no other process on any machine, and no other descriptor of this
/// process, can lock the same byte. The lock ends when this object or the process ends, or when the file is closed.
class ByteLock {
 public:
  /// Waits until it gets the lock. Throws Error(failure) if the file system does not support locks.
  ByteLock(const Descriptor& file, long long byte);
  ~ByteLock();
  ByteLock(ByteLock&& other) noexcept;
  ByteLock(const ByteLock&) = delete;
  ByteLock& operator=(const ByteLock&) = delete;
  ByteLock& operator=(ByteLock&&) = delete;

  /// Locks the byte without waiting; empty if another holder has locked it, or if locking fails.
  static std::optional<ByteLock> without_waiting(const Descriptor& file, long long byte);

 private:
  ByteLock(int file, long long byte) : file_(file), byte_(byte) {}

  int file_;
  long long byte_;
};

/// True if another holder has locked the byte.
bool is_locked(const Descriptor& file, long long byte);

}  // namespace annulus::store
