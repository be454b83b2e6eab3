// Messages, and one hop on the wire: messages out and in.
#pragma once

#include <deque>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"

namespace annulus::comm {

/// Starts receiving, or sending, one `type` at `data`; requests.wait() ends it.
void start_receive(Requests& requests, const Communicator& comm, int peer, int tag, void* data, const Datatype& type);
void start_send(Requests& requests, const Communicator& comm, int peer, int tag, const void* data,
                const Datatype& type);
/// Starts sending the rows of a block that is being loaded, when it is; the block outlives the requests.
void start_send(Requests& requests, const Communicator& comm, int peer, int tag, Staged& block);

/// A message to or from a peer; no message at all where `block.rows` is empty.
struct Message {
  int peer = 0;
  RowBlock block;
  int kind = 0;  ///< added to the tag: tells messages of several exchanges between two ranks apart
};

/// What carries an exchange's messages: whatever the transport says, or MPI in any case.
enum class Carrier { any, mpi };

/// Sends and receives of one hop. Use: start(), progress() now and then while computing, wait() before touching the
/// blocks, or wait_received() before the received ones. Until then sent rows must not change and received rows must not
/// be read.
class Exchange {
 public:
  /// Collective where NCCL carries messages, for each communicator's first one; see channel_of().
  explicit Exchange(const Communicator& comm, Carrier carrier = Carrier::any)
      : comm_(comm), nccl_(carrier == Carrier::any ? channel_of(comm) : nullptr) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Posts the receives first, then the sends, and returns at once. `tag` tells hops apart; several messages of one
  /// kind from one rank to another match in the order of their two lists.
  void start(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag);
  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is in flight.
  void progress();
  /// Returns when received rows lie where they belong; messages that leave may still be under way.
  void wait_received();
  /// Returns when all messages are complete.
  void wait();
  /// The same exchange without overlap: even ranks send then receive, odd ranks receive then send, one message after
  /// another.
  void run_blocking(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag);

 private:
  void start_send(const Message& message, int tag);
  void start_receive(const Message& message, int tag);

  const Communicator& comm_;
  NcclChannel* const nccl_;  // carries messages, or null: MPI does
  std::vector<std::shared_ptr<NcclGroup>> groups_;
  std::deque<Staged> outgoing_;  // a deque: messages in flight keep their addresses
  std::deque<Staged> incoming_;
  std::vector<Staged*> arriving_;  // where request i puts rows; null: it sends
  std::size_t stored_ = 0;         // of the incoming, those that MPI is done with
  std::size_t arrived_ = 0;        // and those that kernels may read
  Requests requests_;  // declared after the buffers: when an error unwinds, messages end before their buffers do
};

}  // namespace annulus::comm
