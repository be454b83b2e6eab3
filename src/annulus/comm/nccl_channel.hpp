// Messages between device buffers by NCCL, between the ranks of a communicator. They have a queue (a stream) of their
// own and run at the same time as the kernels.
//
// NCCL matches messages only by their order, and does one group after another. So all ranks must start their groups in
// the same order, as loops over steps do anyway; a rank may leave out groups in which it takes no part.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "annulus/comm/nccl_functions.hpp"
#include "annulus/comm/requests.hpp"
#include "annulus/comm/row_block.hpp"
#include "annulus/core/buffer.hpp"
#include "annulus/core/copy_queue.hpp"

namespace annulus::comm {

/// Bytes to or from a peer: lines of one or several arrays, in this order.
struct NcclMessage {
  int peer = 0;
  std::vector<core::Lines> lines;

  Index bytes() const;
};
/// The selected rows of a block.
NcclMessage nccl_message(int peer, const RowBlock& block);

/// Messages that were started together; all of them are in flight at once.
class NcclGroup;

class NcclChannel {
 public:
  /// Collective; waits for the other ranks, and the watchdog sees it. `nccl` and `queue` must outlive the channel.
  NcclChannel(const Communicator& comm, const NcclFunctions& nccl, core::CopyQueue& queue);
  /// Waits for the other ranks; but aborts NCCL's communicator while an error unwinds, or if groups are unfinished.
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  /// Starts messages. Sent rows are as the kernels launched so far leave them; until the group is over no kernel may be
  /// launched that touches any of the rows. Messages from one rank to another match in the order of the lists.
  std::shared_ptr<NcclGroup> start(std::vector<NcclMessage> sends, std::vector<NcclMessage> receives);
  /// Hands waiting groups to NCCL if it can take them. Throws Error(failure) with NCCL's text if NCCL failed.
  void progress();
  bool is_over(const NcclGroup& group);
  /// Waits until groups are over, and the watchdog sees it; on return received rows are in their blocks.
  void wait(const std::vector<std::shared_ptr<NcclGroup>>& groups);

 private:
  void check(int result, const char* call);
  void check_begun(int result, const char* call);  // `in progress` is no failure
  [[noreturn]] void fail(int result, const char* call);
  /// Whether NCCL has finished what it was asked to begin.
  bool is_ready();
  void issue(NcclGroup& group);
  void settle(NcclGroup& group);

  const NcclFunctions& nccl_;
  core::CopyQueue& queue_;
  const int rank_;
  NcclFunctions::Handle handle_ = nullptr;
  std::deque<std::shared_ptr<NcclGroup>> waiting_;  // not handed to NCCL yet
  std::shared_ptr<NcclGroup> beginning_;            // handed to NCCL, but not in its queue yet
  std::vector<std::weak_ptr<NcclGroup>> begun_;     // in the queue, perhaps not over
  const int exceptions_;                            // std::uncaught_exceptions() at construction
};

/// Calls progress() of all communicators' channels: other ranks may wait for any of them.
void progress_nccl();

}  // namespace annulus::comm
