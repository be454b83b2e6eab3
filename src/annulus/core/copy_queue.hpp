// Copies between host and device memory while kernels run. A copy can wait for kernels, and kernels can wait for a
// copy.
#pragma once

#include <memory>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// `count` lines of `width` bytes each; successive lines begin `pitch` bytes apart.
struct Lines {
  void* data = nullptr;
  Index width = 0;
  Index count = 1;
  Index pitch = 0;
};

/// A moment in the work of the kernels or of a queue. The moment is over when all work that was requested before this
/// moment is done.
struct Moment {
  virtual ~Moment() = default;
};
using When = std::shared_ptr<const Moment>;  ///< null: a moment that is over

/// Makes copies one after another. "The kernels" are those of the default execution space's default instance.
///
/// Worked example: copies rows that a kernel made to the host, then copies other rows from the host for a kernel:
///   kernel<<<>>>; made = q.kernels_so_far(); q.wait_for(made); q.copy(rows, host); out = q.so_far();
///   ... once q.is_over(out), `host` may be read and `rows` may change
///   q.copy(host, others); in = q.so_far(); q.kernels_wait_for(in); kernel<<<others>>>
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;

  /// Returns the moment at which all kernels launched so far are done.
  virtual When kernels_so_far() = 0;
  /// Copies requested from now on begin after `moment`.
  virtual void wait_for(const When& moment) = 0;
  /// Copies lines. `from` and `to` have the same width and count. Until the copy is over, both must stay allocated, and
  /// nothing else may change them.
  virtual void copy(const Lines& from, const Lines& to) = 0;
  /// Returns the moment at which all copies requested so far are done.
  virtual When so_far() = 0;
  /// True if `moment` is over. Throws Error(failure) if a copy failed.
  virtual bool is_over(const When& moment) = 0;
  /// Kernels that are launched from now on begin after `moment`. On the host this does nothing, because copy() returns
  /// when its copy is done, so every moment is over already.
  virtual void kernels_wait_for(const When& moment) = 0;
  /// Returns the GPU's stream, to which libraries can add work of their own; null on the host.
  virtual void* stream() { return nullptr; }
};

/// Makes a queue, independent of others. On a GPU the queue is a stream; elsewhere each copy is done when copy()
/// returns.
std::unique_ptr<CopyQueue> make_copy_queue();

/// Host memory for the copies of a CopyQueue. In builds for GPUs this memory is pinned, so the GPU reads and writes it
/// directly. Allocating pinned memory takes long. The memory ledger does not count this memory.
class HostMemory {
 public:
  HostMemory() = default;
  /// Throws Error(failure), which names the size, if there is not enough memory.
  explicit HostMemory(Index bytes);

  std::byte* data() const { return static_cast<std::byte*>(owner_.get()); }
  Index bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> owner_;
  Index bytes_ = 0;
};

}  // namespace annulus::core
