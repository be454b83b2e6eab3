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

void Exchange::start(const Message& send, const Message& receive, int tag) {
  core::require(requests_.empty(), [] { return "an exchange was started before the last one was waited for"; });
  if (!receive.block.rows.empty()) {
    incoming_.emplace(receive.block);
    const RowBlock& block = incoming_->block();
    check_mpi(MPI_Irecv(first_row(block), 1, Datatype::rows(block).handle(), receive.peer, tag, comm_.handle(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  }
  if (!send.block.rows.empty()) {
    outgoing_.emplace(send.block);
    outgoing_->load();
    const RowBlock& block = outgoing_->block();
    check_mpi(MPI_Isend(first_row(block), 1, Datatype::rows(block).handle(), send.peer, tag, comm_.handle(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
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
  if (incoming_) incoming_->store();
  incoming_.reset();
  outgoing_.reset();
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

void Exchange::run_blocking(const Message& send, const Message& receive, int tag) {
  // Some even rank of a ring has an odd neighbour, also when P is odd, so the chain of waiting sends always ends.
  if (comm_.rank() % 2 == 0) {
    send_now(send, tag);
    receive_now(receive, tag);
  } else {
    receive_now(receive, tag);
    send_now(send, tag);
  }
}

}  // namespace annulus::comm
