#include "annulus/core/free_blocks.hpp"

#include <algorithm>
#include <iterator>

namespace annulus::core {

void* FreeBlocks::take(Index bytes) {
  const std::lock_guard lock(mutex_);
  void* block = nullptr;
  if (const auto found = kept_.find(bytes); found != kept_.end()) {
    block = found->second;
    kept_bytes_ -= bytes;
    kept_.erase(found);
  } else {
    make_room(bytes);
    block = get_(bytes);
    if (block == nullptr && !kept_.empty()) {
      while (!kept_.empty()) release(kept_.begin());
      block = get_(bytes);
    }
    if (block == nullptr) return nullptr;
  }
  used_bytes_ += bytes;
  most_used_ = std::max(most_used_, used_bytes_);
  return block;
}

void FreeBlocks::give(void* block, Index bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
  kept_bytes_ += bytes;
  kept_.emplace(bytes, block);
  if (!keeps_) release(kept_.begin());
}

void FreeBlocks::clear() {
  const std::lock_guard lock(mutex_);
  while (!kept_.empty()) release(kept_.begin());
  most_used_ = used_bytes_;
}

void FreeBlocks::stop() {
  {
    const std::lock_guard lock(mutex_);
    keeps_ = false;  // from here on give() keeps nothing
  }
  clear();
}

/// Releases kept blocks until `bytes` more fit below a limit. The limit is the largest total that was in use, or the
/// total that is now in use plus `bytes`, if that is more. In each step, releases the smallest block that is enough, or
/// the largest block if no block is enough.
void FreeBlocks::make_room(Index bytes) {
  const Index most = std::max(most_used_, used_bytes_ + bytes);
  while (!kept_.empty() && used_bytes_ + kept_bytes_ + bytes > most) {
    const auto enough = kept_.lower_bound(used_bytes_ + kept_bytes_ + bytes - most);
    release(enough != kept_.end() ? enough : std::prev(kept_.end()));
  }
}

void FreeBlocks::release(std::multimap<Index, void*>::iterator block) {
  give_back_(block->second);
  kept_bytes_ -= block->first;
  kept_.erase(block);
}

}  // namespace annulus::core
