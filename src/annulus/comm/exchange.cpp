#include "annulus/comm/exchange.hpp"

namespace annulus::comm {
namespace {

/// Address of the first selected row.
void* first_row(const RowBlock& block) {
  return static_cast<std::byte*>(block.data) + block.rows.begin * block.row_bytes;
}

}  // namespace

Exchange::~Exchange() {
  // Only an error unwinds through here with requests open. Their buffers are about to be freed, so the receives are
  // withdrawn and the requests let go; the job is ending.
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void Exchange::start(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag) {
  core::require(requests_.empty(), [] { return "an exchange was started before the last one was waited for"; });
  for (const Message& receive : receives) {
    if (receive.block.rows.empty()) continue;
    const RowBlock& block = incoming_.emplace_back(receive.block).block();
    check_mpi(MPI_Irecv(first_row(block), 1, Datatype::rows(block).handle(), receive.peer, tag, comm_.handle(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  }
  for (const Message& send : sends) {
    if (send.block.rows.empty()) continue;
    Staged& staged = outgoing_.emplace_back(send.block);
    staged.load();
    check_mpi(MPI_Isend(first_row(staged.block()), 1, Datatype::rows(staged.block()).handle(), send.peer, tag,
                        comm_.handle(), &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
  }
}

void Exchange::progress() {
  if (requests_.empty()) return;
  int done = 0;
  check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
}

void Exchange::wait() {
  check_mpi(MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  requests_.clear();
  for (Staged& staged : incoming_) staged.store();
  incoming_.clear();
  outgoing_.clear();
}

void Exchange::send_now(const Message& message, int tag) const {
  if (message.block.rows.empty()) return;
  Staged staged(message.block);
  staged.load();
  check_mpi(MPI_Send(first_row(staged.block()), 1, Datatype::rows(staged.block()).handle(), message.peer, tag,
                     comm_.handle()),
            "MPI_Send");
}

void Exchange::receive_now(const Message& message, int tag) const {
  if (message.block.rows.empty()) return;
  Staged staged(message.block);
  check_mpi(MPI_Recv(first_row(staged.block()), 1, Datatype::rows(staged.block()).handle(), message.peer, tag,
                     comm_.handle(), MPI_STATUS_IGNORE),
            "MPI_Recv");
  staged.store();
}

void Exchange::run_blocking(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag) {
  const auto send_all = [&] {
    for (const Message& send : sends) send_now(send, tag);
  };
  const auto receive_all = [&] {
    for (const Message& receive : receives) receive_now(receive, tag);
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
