// One hop on the wire: messages out and in, at most one per peer and direction.
#pragma once

#include <deque>
#include <vector>

#include "annulus/comm/staging.hpp"

namespace annulus::comm {

/// A message to or from a peer; no message at all where `block.rows` is empty.
struct Message {
  int peer = 0;
  RowBlock block;
};

/// Sends and receives of one hop. Use: start(), progress() now and then while computing, wait() before touching the
/// blocks. Between start() and wait() the sent rows must not change and the received rows must not be read.
class Exchange {
 public:
  explicit Exchange(const Communicator& comm) : comm_(comm) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Posts the receives first, then the sends, and returns at once. `tag` tells hops apart.
  void start(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag);
  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is under way.
  void progress();
  /// Returns when all messages are complete and received rows lie where they belong.
  void wait();
  /// The same exchange without overlap: even ranks send then receive, odd ranks receive then send, with blocking calls.
  void run_blocking(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag);

 private:
  void send_now(const Message& message, int tag) const;
  void receive_now(const Message& message, int tag) const;

  const Communicator& comm_;
  std::vector<MPI_Request> requests_;
  std::deque<Staged> outgoing_;  // a deque: messages under way keep their addresses
  std::deque<Staged> incoming_;
};

}  // namespace annulus::comm
