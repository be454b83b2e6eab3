#include "annulus/comm/exchange.hpp"

#include <algorithm>
#include <memory>

namespace annulus::comm {

void start_receive(Requests& requests, const Communicator& comm, int peer, int tag, void* data, const Datatype& type) {
  check_mpi(MPI_Irecv(data, 1, type.handle(), peer, tag, comm.handle(),
                      requests.add({Outstanding::Kind::receive, peer, type.bytes()})),
            "MPI_Irecv");
}

void start_send(Requests& requests, const Communicator& comm, int peer, int tag, const void* data,
                const Datatype& type) {
  check_mpi(MPI_Isend(data, 1, type.handle(), peer, tag, comm.handle(),
                      requests.add({Outstanding::Kind::send, peer, type.bytes()})),
            "MPI_Isend");
}

void start_send(Requests& requests, const Communicator& comm, int peer, int tag, Staged& block) {
  const auto type = std::make_shared<const Datatype>(Datatype::rows(block.block()));
  requests.add_when(
      {Outstanding::Kind::send, peer, type->bytes()}, [&block] { return block.is_loaded(); },
      [&comm, peer, tag, &block, type](MPI_Request* request) {
        check_mpi(MPI_Isend(block.block().first_row(), 1, type->handle(), peer, tag, comm.handle(), request),
                  "MPI_Isend");
      });
}

void Exchange::start_receive(const Message& message, int tag) {
  if (message.block.rows.empty()) return;
  if (nccl_ != nullptr) {
    groups_.push_back(nccl_->start({}, {nccl_message(message.peer, message.block)}));
    return;
  }
  Staged& block = incoming_.emplace_back(message.block);
  arriving_.push_back(&block);
  comm::start_receive(requests_, comm_, message.peer, tag + message.kind, block.block().first_row(),
                      Datatype::rows(block.block()));
}

void Exchange::start_send(const Message& message, int tag) {
  if (message.block.rows.empty()) return;
  if (nccl_ != nullptr) {
    groups_.push_back(nccl_->start({nccl_message(message.peer, message.block)}, {}));
    return;
  }
  Staged& block = outgoing_.emplace_back(message.block);
  arriving_.push_back(nullptr);
  block.load();
  comm::start_send(requests_, comm_, message.peer, tag + message.kind, block);
}

void Exchange::start(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag) {
  core::require(incoming_.empty() && outgoing_.empty() && groups_.empty(),
                [] { return "an exchange was started before the last one was waited for"; });
  if (nccl_ != nullptr) {
    const auto all = [](const std::vector<Message>& messages) {
      std::vector<NcclMessage> made;
      for (const Message& message : messages) made.push_back(nccl_message(message.peer, message.block));
      return made;
    };
    groups_.push_back(nccl_->start(all(sends), all(receives)));
    return;
  }
  for (const Message& receive : receives) start_receive(receive, tag);
  for (const Message& send : sends) start_send(send, tag);
}

void Exchange::progress() {
  if (nccl_ != nullptr) nccl_->progress();
  requests_.advance([this](std::size_t i) {
    if (arriving_[i] == nullptr) return;
    arriving_[i]->store();
    ++stored_;
  });
}

void Exchange::wait_received() {
  if (nccl_ != nullptr) return wait();
  requests_.wait([this] {
    progress();
    return stored_ == incoming_.size();
  });
  for (; arrived_ < incoming_.size(); ++arrived_) incoming_[arrived_].arrive();
}

void Exchange::wait() {
  if (nccl_ != nullptr) {
    nccl_->wait(groups_);
    groups_.clear();
    return;
  }
  wait_received();
  requests_.wait([this] {
    progress();
    return requests_.empty();
  });
  stored_ = arrived_ = 0;
  arriving_.clear();
  incoming_.clear();
  outgoing_.clear();
}

void Exchange::run_blocking(const std::vector<Message>& sends, const std::vector<Message>& receives, int tag) {
  // Even ranks send first, odd ranks receive first. Two even ranks would both send first, and wait for each other for
  // ever, for example the neighbours P - 1 and 0 in a ring of an odd number P of ranks. So a rank with such a peer
  // starts all its messages at once.
  const auto is_alike = [&](const Message& message) { return (message.peer - comm_.rank()) % 2 == 0; };
  if (std::ranges::any_of(sends, is_alike) || std::ranges::any_of(receives, is_alike)) {
    start(sends, receives, tag);
    return wait();
  }
  const auto one_by_one = [&](const std::vector<Message>& messages, auto start_one) {
    for (const Message& message : messages) {
      (this->*start_one)(message, tag);
      wait();
    }
  };
  const bool even = comm_.rank() % 2 == 0;
  if (even) one_by_one(sends, &Exchange::start_send);
  one_by_one(receives, &Exchange::start_receive);
  if (!even) one_by_one(sends, &Exchange::start_send);
}

}  // namespace annulus::comm
