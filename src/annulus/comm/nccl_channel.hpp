// Messages between device buffers by NCCL: between the ranks of a communicator, on a queue (a stream) of their own
// beside the kernels.
//
// NCCL matches messages by their order alone, and does one group after another. So all ranks must ask for their groups
// in one order (each may leave some out that it has no part in), which is how the loops over steps do it anyway.
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

/// Bytes to or from a peer: lines of one or several arrays, one after another.
struct NcclMessage {
  int peer = 0;
  std::vector<core::Lines> lines;

  Index bytes() const;
};
/// The selected rows of a block.
NcclMessage nccl_message(int peer, const RowBlock& block);

/// Messages that were asked for together, all of which are on their way at once.
class NcclGroup;

class NcclChannel {
 public:
  /// Collective; waits for the others, watched. Functions and queue must outlive it.
  NcclChannel(const Communicator& comm, const NcclFunctions& nccl, core::CopyQueue& queue);
  /// Waits for the others, but not while an error unwinds or groups are unfinished: these are aborted.
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  /// Asks for messages. Sent rows are as the kernels launched so far leave them; from now until it is over no kernel
  /// may be launched that touches any of the rows. Several messages from one rank to another match in their order here.
  std::shared_ptr<NcclGroup> start(std::vector<NcclMessage> sends, std::vector<NcclMessage> receives);
  /// Hands groups to NCCL when it can take them. Throws Error(failure) with NCCL's words when it failed.
  void progress();
  bool is_over(const NcclGroup& group);
  /// Waits for groups, watched; what they brought is there on return.
  void wait(const std::vector<std::shared_ptr<NcclGroup>>& groups);

 private:
  void check(int result, const char* call);
  void check_begun(int result, const char* call);  // it may go on
  [[noreturn]] void fail(int result, const char* call);
  /// True when NCCL is done with what it was asked to begin.
  bool is_ready();
  void issue(NcclGroup& group);
  void settle(NcclGroup& group);

  const NcclFunctions& nccl_;
  core::CopyQueue& queue_;
  const int rank_;
  NcclFunctions::Handle handle_ = nullptr;
  std::deque<std::shared_ptr<NcclGroup>> waiting_;  // not handed to NCCL yet
  std::shared_ptr<NcclGroup> beginning_;            // handed to it, not in the queue yet
  std::vector<std::weak_ptr<NcclGroup>> begun_;     // perhaps not over
  const int exceptions_;                            // under way when it was made
};

/// Drives the channels of all communicators: what one rank waits for may be another channel's turn on this one.
void progress_nccl();

}  // namespace annulus::comm
