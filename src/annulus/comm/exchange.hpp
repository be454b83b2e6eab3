// Single messages, and the exchange of one hop: all messages that a rank sends and receives in this hop.
#pragma once

#include <deque>
#include <vector>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"

namespace annulus::comm {

/// Starts to receive, or to send, one element of `type` at `data`; requests.wait() waits until the message is complete.
void start_receive(Requests& requests, const Communicator& comm, int peer, int tag, void* data, const Datatype& type);
void start_send(Requests& requests, const Communicator& comm, int peer, int tag, const void* data,
                const Datatype& type);
/// Sends a block as soon as it is loaded. Call block.load() before this function. The block must outlive `requests`.
void start_send(Requests& requests, const Communicator& comm, int peer, int tag, Staged& block);

/// A message to or from a peer. If `block.rows` is empty, there is no message.
struct Message {
  int peer = 0;
  RowBlock block;
  int kind = 0;  ///< added to the tag, so that messages of several exchanges between two ranks do not get mixed up
};

/// Selects what carries an exchange's messages. any: what choose_transport() chose (transport.hpp); mpi: always MPI.
enum class Carrier { any, mpi };

/// The sends and receives of one hop. Call start(). While you compute, call progress() now and then. Then call wait().
/// Until wait() returns, sent rows must not change and received rows must not be read. To read the received rows
/// earlier, first call wait_received().
class Exchange {
 public:
  /// If NCCL carries messages, the first construction for a communicator makes the NCCL channel, which is collective.
  explicit Exchange(const Communicator& comm, Carrier carrier = Carrier::any)
      : comm_(comm), nccl_(carrier == Carrier::any ? channel_of(comm) : nullptr) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Posts the receives, then the sends, and returns at once. Each hop has its own `tag`. Several messages of one kind
  /// from one rank to another match in the order in which both ranks list them.
  void start(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag);
  /// Lets MPI move data, because many MPIs move data only inside their calls. Cheap when nothing is in flight.
  void progress();
  /// Returns when the received rows are in their blocks; sent messages may still be in flight.
  void wait_received();
  /// Returns when all messages are complete.
  void wait();
  /// Does the whole exchange while nothing is computed, one message after another: even ranks first send, then receive;
  /// odd ranks first receive, then send. If this rank and a peer are both even or both odd, all messages of this rank
  /// go at once.
  void run_blocking(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag);

 private:
  void start_send(const Message& message, int tag);
  void start_receive(const Message& message, int tag);

  const Communicator& comm_;
  NcclChannel* const nccl_;  // carries the messages; null: MPI carries them
  std::vector<std::shared_ptr<NcclGroup>> groups_;
  std::deque<Staged> outgoing_;  // a deque, so that blocks in flight keep their addresses
  std::deque<Staged> incoming_;
  std::vector<Staged*> arriving_;  // [i]: the block that request i receives into; null: request i sends
  std::size_t stored_ = 0;         // how many of `incoming_` MPI has filled
  std::size_t arrived_ = 0;        // how many of `incoming_` kernels may read
  Requests requests_;              // declared last, so destroyed first: cancels messages before their buffers are freed
};

}  // namespace annulus::comm
