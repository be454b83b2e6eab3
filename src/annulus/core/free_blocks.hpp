// Memory of a GPU between two owners. To ask its driver for memory and to give it back takes as long as a kernel over
// some thousand rows, and passes ask for the same sizes again and again.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Blocks that were given back, for the next ones who ask for as many bytes. What is in use and what is kept are never
/// more together than was once in use, or is asked for now: a plan's peak holds. Any thread may call.
class FreeBlocks {
 public:
  /// `get` returns nullptr where there is no memory.
  FreeBlocks(std::function<void*(Index bytes)> get, std::function<void(void*)> give_back)
      : get_(std::move(get)), give_back_(std::move(give_back)) {}
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  /// A block of so many bytes, more than 0; nullptr where there is no memory, not even without what is kept.
  void* take(Index bytes);
  /// `block` is one of take(bytes) that nothing uses any more.
  void give(void* block, Index bytes);
  /// Gives back all that is kept and forgets what was once in use.
  void clear();
  /// The same, and keeps nothing from now on: the driver is about to go.
  void stop();

 private:
  void make_room(Index bytes);
  void release(std::multimap<Index, void*>::iterator block);

  const std::function<void*(Index)> get_;
  const std::function<void(void*)> give_back_;
  std::mutex mutex_;
  bool keeps_ = true;
  std::multimap<Index, void*> kept_;  // by bytes
  Index kept_bytes_ = 0, used_bytes_ = 0, most_used_ = 0;
};

/// Gives back what is kept of the GPU's memory that buffers had (buffer.hpp); in builds for host threads there is none.
void release_free_blocks();

}  // namespace annulus::core
