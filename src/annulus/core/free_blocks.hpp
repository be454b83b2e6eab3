// Keeps unused GPU memory for its next owner. Asking the driver for memory and giving it back takes as long as a kernel
// over some thousand rows, and every pass asks for the same sizes again.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Keeps blocks that are given back, so that a later request of the same size gets one of them. Used and kept bytes
/// together never exceed the largest number of bytes that were in use at once since clear(). So kept blocks do not
/// raise the peak above the plan's prediction. Thread-safe.
class FreeBlocks {
 public:
  /// `get` returns nullptr if there is no memory.
  FreeBlocks(std::function<void*(Index bytes)> get, std::function<void(void*)> give_back)
      : get_(std::move(get)), give_back_(std::move(give_back)) {}
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  /// Returns a block of `bytes` (> 0) bytes, or nullptr if there is no memory even after all kept blocks were released.
  void* take(Index bytes);
  /// Takes back a block that came from take(bytes) and that nothing uses any more.
  void give(void* block, Index bytes);
  /// Releases all kept blocks and forgets the largest total that was in use.
  void clear();
  /// Does the same as clear(), and keeps no block from now on, because the driver is about to shut down.
  void stop();

 private:
  void make_room(Index bytes);
  void release(std::multimap<Index, void*>::iterator block);

  const std::function<void*(Index)> get_;
  const std::function<void(void*)> give_back_;
  std::mutex mutex_;
  bool keeps_ = true;
  std::multimap<Index, void*> kept_;  // key: size of the block in bytes
  Index kept_bytes_ = 0, used_bytes_ = 0, most_used_ = 0;
};

/// Releases the GPU memory that is kept for later buffers (buffer.hpp). Does nothing in builds for host threads.
void release_free_blocks();

}  // namespace annulus::core
