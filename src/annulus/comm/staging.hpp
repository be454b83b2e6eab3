// The only place that knows whether MPI may touch the execution space's memory. Host memory goes to MPI as it lies;
// device memory does where distribution.gpu_aware says so, and is staged through host memory else: by copies that run
// beside the kernels, a queue for each direction, so that neither the host nor the kernels wait for them.
#pragma once

#include <functional>
#include <string>

#include "annulus/comm/row_block.hpp"
#include "annulus/core/copy_queue.hpp"

namespace annulus::comm {

/// What distribution.gpu_aware asks for.
enum class GpuAware { automatic, on, off };

/// Decides how device memory travels; collective, the same on all ranks. Neither version macros nor query functions
/// are believed, which are wrong both ways: on rank 0 `trial` has a child process do send_device_memory_to_self(). A
/// library that cannot do it then ends the child and not the run. `trial` returns what went wrong, or nothing; it is
/// called only where the answer matters. `on` goes straight whatever it says, and warns: a GPU may be one that no
/// second process may use.
void choose_transfers(GpuAware wanted, const Communicator& comm, const std::function<std::string()>& trial);

/// How rows travel, and why: "device memory staged through host memory (distribution.gpu_aware: off)", or by NCCL
/// (transport.hpp). Before any choice device memory is staged.
std::string transfers();

/// The child's part. Returns 0 when device memory that was sent arrived unchanged.
int send_device_memory_to_self();

/// What staged messages are copied by.
struct StagingQueues {
  core::CopyQueue* to_host = nullptr;
  core::CopyQueue* to_device = nullptr;
};
/// For tests: from now on all blocks are staged, host memory, too, and copied by these; null: as before.
void stage_by(const StagingQueues& queues);

/// A block as MPI may read or write it: the block itself, or a packed copy in host memory. Made when its message is
/// asked for: its rows are then as the kernels that have been launched leave them, and no kernel launched later touches
/// them until the message is complete.
///   to send      load(); MPI may have it from the moment is_loaded() says yes
///   to receive   store() when MPI is done with it; arrive() before a kernel that reads it is launched
/// Nothing happens in any of these where the block is not staged.
class Staged {
 public:
  explicit Staged(const RowBlock& block);
  /// MPI is done with it, unless an error unwinds: then its memory is left to the end of the program.
  ~Staged();
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  /// What to hand to MPI: block().data begins `parts` ranges of rows.
  const RowBlock& block() const { return visible_; }

  /// Begins device memory -> host copy.
  void load();
  bool is_loaded();
  void wait_until_loaded();
  /// Begins host copy -> device memory, the selected rows; after whatever kernels were launched before this was made.
  void store();
  /// Kernels that are launched from now on see what was stored.
  void arrive();

 private:
  bool is_staged() const { return memory_.bytes() > 0; }

  const RowBlock origin_;
  RowBlock visible_;
  StagingQueues queues_;
  core::HostMemory memory_;
  core::When kernels_before_;  // launched before this was made
  core::When loaded_, stored_;
  const int exceptions_;  // under way when it was made
};

}  // namespace annulus::comm
