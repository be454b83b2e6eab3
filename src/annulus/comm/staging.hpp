// Only this file knows whether MPI may access the execution space's memory. Host memory goes to MPI directly. Device
// memory also goes to MPI directly if choose_transfers() decides so; otherwise it is staged, that is, copied through
// host memory. Copies run while kernels run, in one queue per direction. Host and kernels wait only for rows they need.
#pragma once

#include <functional>
#include <string>

#include "annulus/comm/row_block.hpp"
#include "annulus/core/copy_queue.hpp"

namespace annulus::comm {

/// The values of distribution.gpu_aware.
enum class GpuAware { automatic, on, off };

/// Decides how device memory travels; collective, with the same result on all ranks. MPI's version macros and query
/// functions may claim support that is missing, or deny support that exists, so they are not used. Instead, rank 0
/// calls `trial`, which makes a child process call send_device_memory_to_self(), so that a crash of the library ends
/// only the child. `trial` returns what went wrong, or an empty text. `trial` is called only for device memory, and not
/// with `off`. With `on`, device memory is sent directly also if the trial fails, because perhaps the GPU only refused
/// a second process (the child). Rank 0 then prints a warning.
void choose_transfers(GpuAware wanted, const Communicator& comm, const std::function<std::string()>& trial);

/// Returns how rows travel, and why: "device memory staged through host memory (distribution.gpu_aware: off)", or by
/// NCCL (transport.hpp). Until choose_transfers() is called, device memory is staged.
std::string transfers();

/// Does the trial; the child process calls it. Returns 0 if device memory that was sent arrived unchanged.
int send_device_memory_to_self();

/// The queues that copy staged messages.
struct StagingQueues {
  core::CopyQueue* to_host = nullptr;
  core::CopyQueue* to_device = nullptr;
};
/// For tests: from now on all blocks are staged, also host memory, and these queues copy them. Null queues end this.
void stage_by(const StagingQueues& queues);

/// A block in a form that MPI may read or write: the block itself, or a packed copy in host memory. Construct it when
/// the message is started. Rows are sent with the contents that the kernels launched before construction give them.
/// Until the message is complete, no kernel may be launched that changes sent rows or touches received rows.
///   to send      load(); MPI may read the block as soon as is_loaded() returns true
///   to receive   store() when MPI has written the block; arrive() before a kernel that reads the rows is launched
/// If the block is not staged, these functions do nothing.
class Staged {
 public:
  explicit Staged(const RowBlock& block);
  /// MPI must be done with the block, except while an error unwinds; then the copy's memory is never freed.
  ~Staged();
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  /// Returns the block that MPI reads or writes: the block itself, or its packed copy.
  const RowBlock& block() const { return visible_; }

  /// Starts the copy from device memory to the host.
  void load();
  bool is_loaded();
  void wait_until_loaded();
  /// Starts the copy of the selected rows to device memory, after the kernels launched before construction.
  void store();
  /// Kernels that are launched from now on see the stored rows.
  void arrive();

 private:
  bool is_staged() const { return memory_.bytes() > 0; }

  const RowBlock origin_;
  RowBlock visible_;
  StagingQueues queues_;
  core::HostMemory memory_;
  core::When kernels_before_;  // the kernels launched before construction
  core::When loaded_, stored_;
  const int exceptions_;  // std::uncaught_exceptions() at construction
};

}  // namespace annulus::comm
