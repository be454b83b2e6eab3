// NCCL carries messages between device buffers of a communicator's ranks. The messages have a queue (a CUDA stream) of
// their own and travel while kernels run.
//
// NCCL matches messages only by their order, and finishes one group before the next. So all ranks must start their
// groups in the same order, as loops over steps do anyway. A rank may leave out a group in which it has no message.
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

/// Bytes to or from a peer: lines (core::Lines) of one or several arrays, in the order in which the bytes travel.
struct NcclMessage {
  int peer = 0;
  std::vector<core::Lines> lines;

  Index bytes() const;
};
/// Returns a message of the block's selected rows.
NcclMessage nccl_message(int peer, const RowBlock& block);

/// Messages that were started together; all of them are in flight at once.
class NcclGroup;

class NcclChannel {
 public:
  /// Collective; waits for the other ranks, watched by the watchdog. `nccl` and `queue` must outlive the channel.
  NcclChannel(const Communicator& comm, const NcclFunctions& nccl, core::CopyQueue& queue);
  /// Waits for the other ranks. If an error unwinds, or if groups are unfinished, aborts NCCL's communicator instead.
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  /// Starts messages as one group. Rows are sent with the contents that the kernels launched so far give them. Until
  /// the group is over, no kernel may be launched that changes sent rows or touches received rows. Messages from one
  /// rank to another match in the order of the lists.
  std::shared_ptr<NcclGroup> start(std::vector<NcclMessage> sends, std::vector<NcclMessage> receives);
  /// Hands waiting groups to NCCL if NCCL can take them. Throws Error(failure) with NCCL's text if NCCL failed.
  void progress();
  bool is_over(const NcclGroup& group);
  /// Waits until the groups are over, watched by the watchdog; on return received rows are in their blocks.
  void wait(const std::vector<std::shared_ptr<NcclGroup>>& groups);

 private:
  void check(int result, const char* call);
  void check_begun(int result, const char* call);  // NCCL's result `in progress` is not a failure
  [[noreturn]] void fail(int result, const char* call);
  /// True if NCCL has finished the calls that returned `in progress`.
  bool is_ready();
  void issue(NcclGroup& group);
  void settle(NcclGroup& group);

  const NcclFunctions& nccl_;
  core::CopyQueue& queue_;
  const int rank_;
  NcclFunctions::Handle handle_ = nullptr;
  std::deque<std::shared_ptr<NcclGroup>> waiting_;  // not handed to NCCL yet
  std::shared_ptr<NcclGroup> beginning_;            // handed to NCCL, but not in the queue yet
  std::vector<std::weak_ptr<NcclGroup>> begun_;     // in the queue, perhaps not over
  const int exceptions_;                            // std::uncaught_exceptions() at construction
};

/// Calls progress() of all channels, because other ranks may be waiting for messages of any channel.
void progress_nccl();

}  // namespace annulus::comm
