// Every rank's rows on every rank, block by block as they arrive.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"

namespace annulus::comm {

/// A gather that hands out each rank's block as soon as it has arrived. Use: start(), progress() now and then while
/// computing, next() until it returns nothing, finish(). Own rows must not change before finish() returns.
class Gather {
 public:
  /// Collective for the first exchange of a communicator if NCCL carries messages; see channel_of().
  explicit Gather(const Communicator& comm) : comm_(comm), nccl_(channel_of(comm)) {}
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Posts a receive from every other rank, then sends this rank's rows to all of them, and returns at once.
  ///   own     this rank's rows
  ///   blocks  [P]: where each rank's rows go, sized as that rank's `own`; this rank's entry is not used
  /// A block without rows is no message. NCCL brings the blocks by distance, the nearest rank's first.
  void start(const RowBlock& own, const std::vector<RowBlock>& blocks);
  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is in flight.
  void progress();
  /// The next rank whose rows are in its block, in the order of arrival; waits for one. Nothing when all have come.
  std::optional<int> next();
  /// Returns when the other ranks have this rank's rows.
  void finish();

 private:
  void start_by_nccl(const RowBlock& own, const std::vector<RowBlock>& blocks);

  const Communicator& comm_;
  NcclChannel* const nccl_;                         // carries the messages; null: MPI does
  std::vector<std::shared_ptr<NcclGroup>> groups_;  // for each of peers_, then those that only send
  std::vector<int> peers_;                          // of the receives
  std::deque<Staged> incoming_;                     // of the receives; a deque: messages in flight keep their addresses
  std::optional<Staged> outgoing_;                  // one copy serves all peers
  std::deque<std::size_t> arrived_;                 // receives not handed out yet
  std::size_t handed_out_ = 0;
  Requests requests_;  // receives first, then sends; declared after the buffers, as in Exchange
};

}  // namespace annulus::comm
