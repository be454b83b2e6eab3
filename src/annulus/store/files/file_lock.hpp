// Locks on single bytes of a file that end with the process that holds them, on this machine or on another one.
#pragma once

#include <optional>

#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

/// Whether the file system has locks.
bool has_locks(const Descriptor& file);

/// Locks byte `byte` while it lives; shared: others may have it shared, too. Other descriptors of this process count as
/// others.
class ByteLock {
 public:
  enum class Kind { exclusive, shared };

  /// Waits for it. Throws Error(failure) when the file system refuses.
  ByteLock(const Descriptor& file, long long byte, Kind kind = Kind::exclusive);
  ~ByteLock();
  ByteLock(ByteLock&& other) noexcept;
  ByteLock(const ByteLock&) = delete;
  ByteLock& operator=(const ByteLock&) = delete;
  ByteLock& operator=(ByteLock&&) = delete;

  /// Nothing where somebody else has it.
  static std::optional<ByteLock> without_waiting(const Descriptor& file, long long byte, Kind kind = Kind::exclusive);

 private:
  ByteLock(int file, long long byte) : file_(file), byte_(byte) {}

  int file_;
  long long byte_;
};

/// Somebody else has the byte.
bool is_locked(const Descriptor& file, long long byte);

}  // namespace annulus::store
