#include "annulus/comm/exchange.hpp"

namespace annulus::comm {

void Exchange::start_receive(const Message& message, int tag) {
  if (message.block.rows.empty()) return;
  const RowBlock& block = incoming_.emplace_back(message.block).block();
  if (exchange_probe != nullptr) exchange_probe->before_receive(message.block);
  check_mpi(MPI_Irecv(block.first_row(), 1, Datatype::rows(block).handle(), message.peer, tag, comm_.handle(),
                      requests_.add({Outstanding::Kind::receive, message.peer, block.bytes()})),
            "MPI_Irecv");
}

void Exchange::start_send(const Message& message, int tag) {
  if (message.block.rows.empty()) return;
  if (exchange_probe != nullptr) exchange_probe->before_send();
  Staged& staged = outgoing_.emplace_back(message.block);
  staged.load();
  const RowBlock& block = staged.block();
  check_mpi(MPI_Isend(block.first_row(), 1, Datatype::rows(block).handle(), message.peer, tag, comm_.handle(),
                      requests_.add({Outstanding::Kind::send, message.peer, block.bytes()})),
            "MPI_Isend");
}

void Exchange::start(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag) {
  core::require(incoming_.empty() && outgoing_.empty(),
                [] { return "an exchange was started before the last one was waited for"; });
  for (const Message& receive : receives) start_receive(receive, tag);
  for (const Message& send : sends) start_send(send, tag);
}

void Exchange::progress() { requests_.advance(); }

void Exchange::wait() {
  requests_.wait();
  for (Staged& staged : incoming_) staged.store();
  incoming_.clear();
  outgoing_.clear();
}

void Exchange::run_blocking(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag) {
  const auto send_all = [&] {
    for (const Message& send : sends) {
      start_send(send, tag);
      wait();
    }
  };
  const auto receive_all = [&] {
    for (const Message& receive : receives) {
      start_receive(receive, tag);
      wait();
    }
  };
  // Some even rank of a ring has an odd neighbour, also when P is odd, so the chain of waiting sends always ends.
  if (comm_.rank() % 2 == 0) {
    send_all();
    receive_all();
  } else {
    receive_all();
    send_all();
  }
}

}  // namespace annulus::comm
