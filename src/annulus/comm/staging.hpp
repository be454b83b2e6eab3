// The only place that knows whether MPI may touch the execution space's memory. Host memory goes to MPI as it lies;
// device memory does where distribution.gpu_aware says so, and is staged through host memory else.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annulus/comm/row_block.hpp"

namespace annulus::comm {

/// What distribution.gpu_aware asks for.
enum class GpuAware { automatic, on, off };

/// Decides how device memory travels; collective, the same on all ranks. `automatic` believes neither version macros
/// nor query functions, which are wrong both ways: on rank 0 `trial` has a child process do
/// send_device_memory_to_self(). A library that cannot do it then ends the child and not the run. `trial` returns what
/// went wrong, or nothing; it is called only where the answer matters.
void choose_transfers(GpuAware wanted, const Communicator& comm, const std::function<std::string()>& trial);

/// What was chosen and why: "device memory staged through host memory (distribution.gpu_aware: off)". Before any choice
/// device memory is staged.
const std::string& transfers();

/// The child's part. Returns 0 when device memory that was sent arrived unchanged.
int send_device_memory_to_self();

/// A block as MPI may read or write it: the block itself, or a packed copy in host memory.
class Staged {
 public:
  explicit Staged(const RowBlock& block);

  /// What to hand to MPI: block().data begins `parts` ranges of rows.
  const RowBlock& block() const { return visible_; }
  /// Before a send: device memory -> host copy. Nothing to do for host memory.
  void load();
  /// After a receive: host copy -> device memory.
  void store();

 private:
  RowBlock origin_;
  RowBlock visible_;
  std::vector<std::byte> copy_;
};

}  // namespace annulus::comm
