// A buffer of bytes in the memory of the default execution space (device memory in GPU builds, otherwise plain memory).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// An uninitialised array of bytes, counted in the memory ledger under `purpose` while it lives. Copies of a Buffer
/// share the array. Throws Error(failure), which names purpose and size, if there is not enough memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::string purpose, Index bytes);

  void* data() const { return data_; }
  Index bytes() const { return bytes_; }
  /// Memory that the caller owns and keeps alive; the ledger does not count it.
  static Buffer borrowed(void* data, Index bytes);
  bool is_borrowed() const { return data_ != nullptr && owner_ == nullptr; }
  /// Whether other copies of this buffer, or parts of it (first()), exist.
  bool is_shared() const { return owner_.use_count() > 1; }
  /// The first `bytes` of the buffer. The whole buffer stays allocated as long as any such part exists.
  Buffer first(Index bytes) const;
  /// Address `offset` bytes into the buffer.
  std::byte* at(Index offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  std::shared_ptr<void> owner_;  // destroys the allocation and its ledger entry
  void* data_ = nullptr;
  Index bytes_ = 0;
};

/// Copies between host memory and a buffer's memory (a plain copy if both are the same memory); complete on return.
void copy_to_device(void* device, const void* host, Index bytes);
void copy_to_host(void* host, const void* device, Index bytes);
/// Fills a buffer's memory with zero bytes; complete on return.
void fill_zero(void* device, Index bytes);

/// True when the default execution space reads host memory directly (OpenMP, Serial, Threads).
bool device_is_host();

}  // namespace annulus::core
