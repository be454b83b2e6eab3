// Every rank's rows on every rank, block by block as they arrive.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"

namespace annulus::comm {

/// A gather that hands out each rank's block when it is there, whichever comes first. Use: start(), progress() now and
/// then while computing, next() until it has nothing more, finish(). Own rows must not change before finish() returns.
class Gather {
 public:
  /// Collective where NCCL carries messages, for each communicator's first one; see channel_of().
  explicit Gather(const Communicator& comm) : comm_(comm), nccl_(channel_of(comm)) {}
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Posts a receive from every other rank, then sends this rank's rows to all of them, and returns at once.
  ///   own     this rank's rows
  ///   blocks  [P]: where each rank's rows go, sized as that rank's `own`; this rank's entry is not used
  /// A block without rows is no message. NCCL brings blocks in the order of ranks, nearest first.
  void start(const RowBlock& own, const std::vector<RowBlock>& blocks);
  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is in flight.
  void progress();
  /// The next rank whose rows lie where they belong, in the order of arrival; waits for one. Nothing when all came.
  std::optional<int> next();
  /// Returns when the other ranks have this rank's rows.
  void finish();

 private:
  void start_by_nccl(const RowBlock& own, const std::vector<RowBlock>& blocks);

  const Communicator& comm_;
  NcclChannel* const nccl_;                         // carries messages, or null: MPI does
  std::vector<std::shared_ptr<NcclGroup>> groups_;  // of peers_, and after them those that only send
  std::vector<int> peers_;                          // of the receives
  std::deque<Staged> incoming_;                     // of the receives; a deque: messages in flight keep their addresses
  std::optional<Staged> outgoing_;                  // one copy serves all peers
  std::deque<std::size_t> arrived_;                 // receives not handed out yet
  std::size_t handed_out_ = 0;
  Requests requests_;  // receives first, then sends; declared after the buffers, as in Exchange
};

}  // namespace annulus::comm
