// One hop on the wire: at most one message out and one in.
#pragma once

#include <optional>

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

  /// Posts the receive first, then the send, and returns at once. `tag` tells hops apart.
  void start(const Message& send, const Message& receive, int tag);
  /// Lets MPI move data (it does so only inside calls). Cheap when nothing is under way.
  void progress();
  /// Returns when both messages are complete and received rows lie where they belong.
  void wait();
  /// The same exchange without overlap: even ranks send then receive, odd ranks receive then send, with blocking calls.
  void run_blocking(const Message& send, const Message& receive, int tag);

 private:
  void send_now(const Message& message, int tag) const;
  void receive_now(const Message& message, int tag) const;

  const Communicator& comm_;
  std::vector<MPI_Request> requests_;
  std::optional<Staged> outgoing_;
  std::optional<Staged> incoming_;
};

}  // namespace annulus::comm
