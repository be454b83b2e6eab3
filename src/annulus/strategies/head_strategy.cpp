#include "annulus/strategies/head_strategy.hpp"

#include "annulus/strategies/head_groups.hpp"
#include "annulus/strategies/hop_loop.hpp"

namespace annulus::strategies {
namespace {

class HeadStrategy final : public Strategy {
 public:
  HeadStrategy(std::string_view name, std::string_view description, GroupSize group_size)
      : name_(name), description_(description), group_size_(std::move(group_size)) {}

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    Problem cut = problem;
    // In one group every rank computes all rows, so that their places decide nothing.
    if (!cut.partition && group_size_(problem, ranks) == ranks) cut.partition = pattern::PartitionKind::contiguous;
    return distributed_partition(cut, ranks);
  }

  CommunicationShape communication(const Problem& problem, int ranks) const override {
    const int group = group_size_(problem, ranks);
    return {group == ranks ? Movement::heads : Movement::heads_in_ring, group < ranks, group};
  }

  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const HeadGroup group(problem, partition, group_size_(problem, int(partition.size())), rank);
    Prediction prediction = predict_hops(group.narrow(), group.rows(), hops(group), group.number());
    prediction.memory_bytes = group.memory(prediction.memory_bytes);
    prediction.bytes_sent += group.bytes_sent();
    prediction.bytes_received += group.bytes_received();
    return prediction;
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const HeadGroup group(problem, partition, group_size_(problem, comm.size()), comm.rank());
    const comm::Communicator inside = comm.split(group.number()), across = comm.split(group.place());
    double start = core::wall_seconds();
    Tensors narrow = group.take_heads(inside, tensors);
    const double out_seconds = core::wall_seconds() - start;
    core::RankMetrics metrics =
        forward_in_hops(group.narrow(), group.rows(), hops(group), HopMode::overlapped, across, narrow, progress);
    narrow.q = {};
    narrow.kv = {};
    start = core::wall_seconds();
    group.return_heads(inside, narrow, tensors);
    metrics.rows = partition[std::size_t(comm.rank())].count();
    core::HopMetrics& first = metrics.hops.front();  // both exchanges are counted there
    first.wait_seconds += out_seconds + core::wall_seconds() - start;
    first.bytes_sent += group.bytes_sent();
    first.bytes_received += group.bytes_received();
    first.rows_received += group.rows_received();
    return metrics;
  }

 private:
  /// Between ranks at the same place of their groups.
  static Lanes hops(const HeadGroup& group) {
    const int groups = int(group.rows().size());
    return {pattern::ring_hops(group.narrow().layout(), group.rows(), group.number(), 1, groups - 1)};
  }

  std::string_view name_;
  std::string_view description_;
  GroupSize group_size_;
};

}  // namespace

std::unique_ptr<Strategy> make_head_strategy(std::string_view name, std::string_view description,
                                             GroupSize group_size) {
  return std::make_unique<HeadStrategy>(name, description, std::move(group_size));
}

}  // namespace annulus::strategies
