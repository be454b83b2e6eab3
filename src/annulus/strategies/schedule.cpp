#include "annulus/strategies/schedule.hpp"

#include <algorithm>

namespace annulus::strategies {
namespace {

void add(const Transfers& transfers, Prediction& prediction) {
  for (const Transfer& one : transfers.sent) prediction.bytes_sent += one.bytes;
  for (const Transfer& one : transfers.received) prediction.bytes_received += one.bytes;
}

/// Bytes during step s: the last step's are held on.
Index during(const std::vector<Index>& bytes, std::size_t s) {
  return bytes.empty() ? 0 : bytes[std::min(s, bytes.size() - 1)];
}

}  // namespace

Schedule::Schedule(const MakePlans& make, Problem problem, pattern::Partition partition, int group)
    : make_(make), problem_(std::move(problem)), partition_(std::move(partition)), group_(group) {
  if (has_groups()) return;
  rounds_ = rounds_of(problem_);
  plans_ = make_(rounds_, partition_);
}

const Schedule& Schedule::across(int rank) const {
  std::unique_ptr<Schedule>& schedule = across_[rank % group_];
  if (!schedule) {
    const HeadGroup group = group_of(rank);
    schedule = std::make_unique<Schedule>(make_, group.narrow(), group.rows());
  }
  return *schedule;
}

Prediction Schedule::predict_work(int rank) const {
  const Index rows = partition_[std::size_t(rank)].count();
  Prediction prediction;
  prediction.kept = kept_of(problem_, partition_[std::size_t(rank)]);
  Index most = 0;  // bytes of buffers
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const KeyRound& keys = plans_.keys->round(i);
    const SumRound* sums = plans_.sums ? &plans_.sums->round(i) : nullptr;
    const std::size_t of_keys = keys.steps(rank), of_sums = sums != nullptr ? sums->steps(rank) : 0;
    const std::vector<Index> key_bytes = keys.buffer_bytes(rank);
    const std::vector<Index> sum_bytes = sums != nullptr ? sums->buffer_bytes(rank) : std::vector<Index>{};
    for (std::size_t s = 0; s < std::max(of_keys, of_sums); ++s) {
      if (s < of_keys) add(keys.transfers(rank, s), prediction);
      if (s < of_sums) add(sums->transfers(rank, s), prediction);
      most = std::max(most, during(key_bytes, s) + during(sum_bytes, s));
    }
  }
  const Index windows = plans_.keys->window_bytes(rank) + (plans_.sums ? plans_.sums->window_bytes(rank) : 0);
  if (plans_.sums) {
    prediction.memory_bytes = backward_work(problem_, rows, std::max(most, plans_.sums->closing_bytes(rank)));
  } else {
    prediction.memory_bytes = forward_memory(problem_, rows, plans_.keys->query_blocks(rank), most);
  }
  prediction.memory_bytes += windows;
  return prediction;
}

Prediction Schedule::predict(int rank) const {
  if (!has_groups()) {
    Prediction prediction = predict_work(rank);
    if (plans_.sums) prediction.memory_bytes += backward_inputs(problem_, partition_[std::size_t(rank)].count());
    return prediction;
  }
  const HeadGroup group = group_of(rank);
  const Schedule& across = this->across(rank);
  Prediction prediction = across.predict_work(group.number());
  const bool backward = across.sums() != nullptr;
  prediction.memory_bytes =
      backward ? group.backward_memory(prediction.memory_bytes) : group.memory(prediction.memory_bytes);
  prediction.bytes_sent += backward ? group.backward_bytes_sent() : group.bytes_sent();
  prediction.bytes_received += backward ? group.backward_bytes_received() : group.bytes_received();
  return prediction;
}

}  // namespace annulus::strategies
