// Copies between host and device memory that run beside the kernels, and what must wait for what.
#pragma once

#include <memory>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// `count` lines of `width` bytes each, the first ones of which lie `pitch` bytes apart.
struct Lines {
  void* data = nullptr;
  Index width = 0;
  Index count = 1;
  Index pitch = 0;
};

/// A moment in the life of the kernels or of a queue, which is over when all is done that was asked for until then.
struct Moment {
  virtual ~Moment() = default;
};
using When = std::shared_ptr<const Moment>;  ///< null: over since ever

/// Copies, one after another. "The kernels" are those of the default execution space's default instance.
///
/// Worked example, rows that a kernel made, to the host, and rows from there for the next kernel:
///   kernel<<<>>>; made = q.kernels_so_far(); q.wait_for(made); q.copy(rows, host); out = q.so_far();
///   ... until q.is_over(out): `host` may be read, `rows` may change
///   q.copy(host, others); in = q.so_far(); q.kernels_wait_for(in); kernel<<<others>>>
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;

  /// When the kernels that have been launched until now are done.
  virtual When kernels_so_far() = 0;
  /// What is asked for from now on begins after that moment.
  virtual void wait_for(const When& moment) = 0;
  /// Copies lines; both have the same width and count, and stay as they are until it is over.
  virtual void copy(const Lines& from, const Lines& to) = 0;
  /// When all copies asked for until now are done.
  virtual When so_far() = 0;
  /// Throws Error(failure) where a copy failed.
  virtual bool is_over(const When& moment) = 0;
  /// Kernels that are launched from now on begin after that moment. On the host, where kernels run when they are
  /// launched, it is over on return.
  virtual void kernels_wait_for(const When& moment) = 0;
  /// The GPU's stream, for libraries that put work of their own into the queue; null on the host.
  virtual void* stream() { return nullptr; }
};

/// A queue of its own beside others: on a GPU a stream, elsewhere one whose copies are done at once.
std::unique_ptr<CopyQueue> make_copy_queue();

/// Host memory for such copies; on a GPU's node memory that it reaches by itself (pinned), which takes long to make.
/// Not in the memory ledger, which counts the memory that tensors are in.
class HostMemory {
 public:
  HostMemory() = default;
  /// Throws Error(failure) naming the size when it is not to be had.
  explicit HostMemory(Index bytes);

  std::byte* data() const { return static_cast<std::byte*>(owner_.get()); }
  Index bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> owner_;
  Index bytes_ = 0;
};

}  // namespace annulus::core
