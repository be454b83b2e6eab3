// Gathers every rank's rows on every rank, and hands them out block by block as they arrive.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"

namespace annulus::comm {

/// A gather that hands out each rank's block as soon as it has arrived. Call start(). While you compute, call
/// progress() now and then. Call next() until it returns nothing, then call finish(). Own rows must not change before
/// finish() returns.
class Gather {
 public:
  /// If NCCL carries messages, the first construction for a communicator makes the NCCL channel, which is collective.
  explicit Gather(const Communicator& comm) : comm_(comm), nccl_(channel_of(comm)) {}
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Posts a receive from every other rank, then sends this rank's rows to all of them, and returns at once.
  ///   own     this rank's rows
  ///   blocks  [P]: blocks[p] receives rank p's rows and has the size of rank p's `own`. The block of this rank is
  ///           not used
  /// A block without rows is not sent. With NCCL the blocks arrive from rank - 1, rank - 2, ..., in this order.
  void start(const RowBlock& own, const std::vector<RowBlock>& blocks);
  /// Lets MPI move data, because many MPIs move data only inside their calls. Cheap when nothing is in flight.
  void progress();
  /// Waits until one more rank's block has arrived, and returns that rank. Returns nothing after the last block.
  std::optional<int> next();
  /// Returns when this rank's rows have been sent.
  void finish();

 private:
  void start_by_nccl(const RowBlock& own, const std::vector<RowBlock>& blocks);

  const Communicator& comm_;
  NcclChannel* const nccl_;                         // carries the messages; null: MPI carries them
  std::vector<std::shared_ptr<NcclGroup>> groups_;  // one for each rank in peers_, then groups that only send
  std::vector<int> peers_;                          // [i]: the rank that sends incoming_[i]
  std::deque<Staged> incoming_;                     // a deque, so that blocks in flight keep their addresses
  std::optional<Staged> outgoing_;                  // one copy of this rank's rows, sent to all ranks
  std::deque<std::size_t> arrived_;                 // indices of blocks that arrived and are not handed out yet
  std::size_t handed_out_ = 0;
  Requests requests_;  // receives, then sends; declared last, so destroyed first: cancels messages before buffers go
};

}  // namespace annulus::comm
