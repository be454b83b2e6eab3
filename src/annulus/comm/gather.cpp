#include "annulus/comm/gather.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"

namespace annulus::comm {
namespace {

constexpr int tag = 0;  // a rank sends at most one message of a gather to a peer

}  // namespace

Gather::~Gather() {
  // Requests are open only when an error unwinds; the job is ending (see Exchange).
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void Gather::start(const RowBlock& own, const std::vector<RowBlock>& blocks) {
  core::require(requests_.empty() && Index(blocks.size()) == comm_.size(),
                [] { return "a gather needs a block of every rank, and the last gather finished"; });
  for (int d = 1; d < comm_.size(); ++d) {  // nearest ranks first, so that not all ranks send to rank 0 at once
    const int peer = core::wrap(comm_.rank() - d, comm_.size());
    if (blocks[std::size_t(peer)].rows.empty()) continue;
    const RowBlock& block = incoming_.emplace_back(blocks[std::size_t(peer)]).block();
    peers_.push_back(peer);
    check_mpi(MPI_Irecv(block.first_row(), 1, Datatype::rows(block).handle(), peer, tag, comm_.handle(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  }
  if (!own.rows.empty()) {
    outgoing_.emplace(own).load();
    const RowBlock& block = outgoing_->block();
    const Datatype type = Datatype::rows(block);
    for (int d = 1; d < comm_.size(); ++d) {
      check_mpi(MPI_Isend(block.first_row(), 1, type.handle(), core::wrap(comm_.rank() + d, comm_.size()), tag,
                          comm_.handle(), &requests_.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Isend");
    }
  }
  indices_.resize(requests_.size());
}

void Gather::note(int completed) {
  for (int i = 0; i < completed; ++i) {  // MPI_UNDEFINED, which is negative, says that no request is left
    const auto index = std::size_t(indices_[std::size_t(i)]);
    if (index < peers_.size()) arrived_.push_back(index);
  }
}

void Gather::progress() {
  if (requests_.empty()) return;
  const int completed = test_some(requests_, indices_, [this](std::size_t i) { return about(i); });
  note(completed);
  if (completed > 0) watchdog_progress();  // MPI_UNDEFINED is negative
}

std::vector<Outstanding> Gather::outstanding() const {
  std::vector<Outstanding> open;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) open.push_back(about(i));
  }
  return open;
}

Outstanding Gather::about(std::size_t i) const {
  if (i < peers_.size()) return {Outstanding::Kind::receive, peers_[i], incoming_[i].block().bytes(), ""};
  const int distance = int(i - peers_.size()) + 1;  // sends follow the receives, to rank + 1, rank + 2, ...
  return {Outstanding::Kind::send, core::wrap(comm_.rank() + distance, comm_.size()), outgoing_->block().bytes(), ""};
}

std::optional<int> Gather::next() {
  if (handed_out_ == peers_.size()) return std::nullopt;
  const auto has_block = [this] {
    if (arrived_.empty()) progress();
    return !arrived_.empty();
  };
  wait_until(has_block, [this] { return outstanding(); });
  const std::size_t index = arrived_.front();
  arrived_.pop_front();
  ++handed_out_;
  incoming_[index].store();
  return peers_[index];
}

void Gather::finish() {
  core::require(handed_out_ == peers_.size(), [] { return "a gather was finished before all blocks were taken"; });
  const auto all_complete = [this] {
    progress();
    return std::all_of(requests_.begin(), requests_.end(), [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
  };
  wait_until(all_complete, [this] { return outstanding(); });
  requests_.clear();
  peers_.clear();
  incoming_.clear();
  outgoing_.reset();
  handed_out_ = 0;
}

}  // namespace annulus::comm
