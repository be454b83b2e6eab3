// A buffer of bytes in the memory of the default execution space (device memory in GPU builds, otherwise plain memory).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// An uninitialised array of bytes, counted in the memory ledger under `purpose` while it lives. Copies of a Buffer
/// share the array. If there is not enough memory, the constructor throws Error(failure), whose message gives purpose
/// and size.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::string purpose, Index bytes);

  void* data() const { return data_; }
  Index bytes() const { return bytes_; }
  /// Returns a Buffer for memory that the caller owns and keeps alive. The ledger does not count this memory.
  static Buffer borrowed(void* data, Index bytes);
  bool is_borrowed() const { return data_ != nullptr && owner_ == nullptr; }
  /// True if other copies of this buffer, or parts of it that first() returned, exist.
  bool is_shared() const { return owner_.use_count() > 1; }
  /// Returns the first `bytes` bytes of the buffer. The whole buffer stays allocated as long as such a part exists.
  Buffer first(Index bytes) const;
  /// Returns the address that is `offset` bytes after the buffer's start.
  std::byte* at(Index offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  std::shared_ptr<void> owner_;  // destroys the allocation and its ledger entry
  void* data_ = nullptr;
  Index bytes_ = 0;
};

/// Keeps memory that messages in flight may still read or write. While an object lives, and after its thread has called
/// message_starts(), Buffers that this thread destroys while a new exception unwinds keep their memory until the
/// program ends.
class BuffersStay {
 public:
  BuffersStay();
  ~BuffersStay();
  /// Call this before each message that uses a Buffer. Has no effect while no object lives.
  static void message_starts();
  BuffersStay(const BuffersStay&) = delete;
  BuffersStay& operator=(const BuffersStay&) = delete;
};

/// Copy bytes between host memory and a buffer's memory, which may be host memory, too. On return the copy is complete.
void copy_to_device(void* device, const void* host, Index bytes);
void copy_to_host(void* host, const void* device, Index bytes);
/// Fills a buffer's memory with zero bytes. On return all bytes are zero.
void fill_zero(void* device, Index bytes);

/// True if the default execution space reads host memory directly (OpenMP, Serial, Threads), or Kokkos was not started.
bool device_is_host();

}  // namespace annulus::core
