#include "annulus/comm/gather.hpp"

#include "annulus/comm/exchange.hpp"

namespace annulus::comm {
namespace {

constexpr int tag = 0;  // one tag is enough, because in a gather a rank sends at most one message to a peer

}  // namespace

void Gather::start(const RowBlock& own, const std::vector<RowBlock>& blocks) {
  core::require(requests_.empty() && groups_.empty() && Index(blocks.size()) == comm_.size(),
                [] { return "a gather needs a block for every rank, and the last gather must be finished"; });
  if (nccl_ != nullptr) return start_by_nccl(own, blocks);
  for (int d = 1; d < comm_.size(); ++d) {
    const int peer = core::wrap(comm_.rank() - d, comm_.size());
    if (blocks[std::size_t(peer)].rows.empty()) continue;
    const RowBlock& block = incoming_.emplace_back(blocks[std::size_t(peer)]).block();
    peers_.push_back(peer);
    start_receive(requests_, comm_, peer, tag, block.first_row(), Datatype::rows(block));
  }
  if (own.rows.empty() || comm_.size() == 1) return;
  outgoing_.emplace(own).load();
  for (int d = 1; d < comm_.size(); ++d)  // in this order not all ranks send to rank 0 at once
    start_send(requests_, comm_, core::wrap(comm_.rank() + d, comm_.size()), tag, *outgoing_);
}

/// Uses one NCCL group for each distance d between sender and receiver, so that blocks arrive one after another.
void Gather::start_by_nccl(const RowBlock& own, const std::vector<RowBlock>& blocks) {
  std::vector<std::shared_ptr<NcclGroup>> only_sending;
  for (int d = 1; d < comm_.size(); ++d) {
    const int to = core::wrap(comm_.rank() + d, comm_.size()), from = core::wrap(comm_.rank() - d, comm_.size());
    const RowBlock& block = blocks[std::size_t(from)];
    const auto group = nccl_->start({nccl_message(to, own)}, {nccl_message(from, block)});
    if (!block.rows.empty()) peers_.push_back(from);
    (block.rows.empty() ? only_sending : groups_).push_back(group);
  }
  groups_.insert(groups_.end(), only_sending.begin(), only_sending.end());
}

void Gather::progress() {
  if (nccl_ != nullptr) nccl_->progress();
  requests_.advance([this](std::size_t i) {
    if (i >= peers_.size()) return;
    incoming_[i].store();
    arrived_.push_back(i);
  });
}

std::optional<int> Gather::next() {
  if (handed_out_ == peers_.size()) return std::nullopt;
  if (nccl_ != nullptr) {
    nccl_->wait({groups_[handed_out_]});
    return peers_[handed_out_++];
  }
  requests_.wait([this] {
    if (arrived_.empty()) progress();
    return !arrived_.empty();
  });
  const std::size_t index = arrived_.front();
  arrived_.pop_front();
  ++handed_out_;
  incoming_[index].arrive();
  return peers_[index];
}

void Gather::finish() {
  core::require(handed_out_ == peers_.size(), [] { return "a gather was finished before all blocks were taken"; });
  requests_.wait();
  if (nccl_ != nullptr) nccl_->wait(groups_);
  groups_.clear();
  peers_.clear();
  incoming_.clear();
  outgoing_.reset();
  handed_out_ = 0;
}

}  // namespace annulus::comm
