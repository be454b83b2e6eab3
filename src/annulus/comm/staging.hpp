// The only place that knows whether MPI may touch the execution space's memory. Host memory goes to MPI as it lies;
// device memory is staged through host memory.
#pragma once

#include <vector>

#include "annulus/comm/row_block.hpp"

namespace annulus::comm {

/// A block as MPI may read or write it: the block itself, or a packed copy in host memory.
class Staged {
 public:
  explicit Staged(const RowBlock& block);

  /// What to hand to MPI: block().data begins `parts` stretches of rows.
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
