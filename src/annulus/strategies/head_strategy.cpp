#include "annulus/strategies/head_strategy.hpp"

#include <utility>

#include "annulus/strategies/head_groups.hpp"
#include "annulus/strategies/hop_backward.hpp"
#include "annulus/strategies/ordered_backward.hpp"

namespace annulus::strategies {
namespace {

/// Query heads of one K/V head go to several of `ranks` ranks.
bool splits_groups(const core::Shape& shape, Index ranks) {
  for (Index p = 0; p < ranks; ++p) {
    if (core::even_part(shape.heads, ranks, p).begin % shape.group() != 0) return true;
  }
  return false;
}

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
    return ordered_partition(cut, ranks);
  }

  std::string not_reproducible(const Problem& problem, int ranks) const override {
    return group_size_(problem, ranks) == ranks ? "" : disorder_of(problem);  // in one group all keys are at hand
  }

  std::string not_reproducible_gradients(const Problem& problem, int ranks) const override {
    const bool splits = splits_groups(problem.shape, group_size_(problem, ranks));
    return splits ? "ranks that share a key/value head add up its dk and dv" : "";
  }

  CommunicationShape communication(const Problem& problem, int ranks) const override {
    const int group = group_size_(problem, ranks);
    return {group == ranks ? Movement::heads : Movement::heads_in_ring, group < ranks, group};
  }

  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const HeadGroup group(problem, partition, group_size_(problem, int(partition.size())), rank);
    Prediction prediction = predict_hops(group.narrow(), group.rows(), ring_lanes, group.number());
    prediction.memory_bytes = group.memory(prediction.memory_bytes);
    prediction.bytes_sent += group.bytes_sent();
    prediction.bytes_received += group.bytes_received();
    return prediction;
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const HeadGroup group(problem, partition, group_size_(problem, comm.size()), comm.rank());
    const comm::Communicator inside = comm.split(group.number()), across = comm.split(group.place());
    core::HopMetrics exchanged;
    Tensors narrow;
    core::timed_wait(exchanged, [&] { narrow = group.take_heads(inside, tensors); });
    core::RankMetrics metrics =
        forward_in_hops(group.narrow(), group.rows(), ring_lanes, HopMode::overlapped, across, narrow, progress);
    narrow.q = {};
    narrow.kv = {};
    core::timed_wait(exchanged, [&] { group.return_heads(inside, narrow, tensors); });
    metrics.rows = partition[std::size_t(comm.rank())].count();
    core::HopMetrics& first = metrics.hops.front();  // both exchanges are counted there
    first.wait_seconds += exchanged.wait_seconds;
    first.bytes_sent += group.bytes_sent();
    first.bytes_received += group.bytes_received();
    first.rows_received += group.rows_received();
    return metrics;
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const HeadGroup group(problem, partition, group_size_(problem, int(partition.size())), rank);
    Prediction prediction = predict_inside(group);
    prediction.memory_bytes = group.backward_memory(prediction.memory_bytes);
    prediction.bytes_sent += group.backward_bytes_sent();
    prediction.bytes_received += group.backward_bytes_received();
    return prediction;
  }

  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    const Index own_rows = partition[std::size_t(comm.rank())].count();
    const HeadGroup group(problem, partition, group_size_(problem, comm.size()), comm.rank());
    const comm::Communicator inside = comm.split(group.number()), across = comm.split(group.place());
    core::RankMetrics metrics{own_rows, {}};
    core::HopMetrics exchanged;
    HeadGroup::BackwardInputs narrow = take_inputs(group, inside, problem, own_rows, tensors, exchanged);
    core::Buffer sums = compute(group, across, narrow, progress, metrics);
    core::timed_wait(exchanged, [&] {
      group.return_query_gradients(inside, narrow.tensors, tensors);
      narrow = {};
      sums = group.return_key_sums(inside, std::move(sums));
    });

    core::HopMetrics& first = metrics.hops.front();  // both exchanges are counted there
    first.wait_seconds += exchanged.wait_seconds;
    first.bytes_sent += group.backward_bytes_sent();
    first.bytes_received += group.backward_bytes_received();
    first.rows_received += group.rows_received();
    tensors.dkv = finish_keys(problem, own_rows, std::move(sums), first);
    return metrics;
  }

 private:
  /// The part between the exchanges inside a group.
  static Prediction predict_inside(const HeadGroup& group) {
    const Problem& narrow = group.narrow();
    if (narrow.reproducible) {
      return predict_hops_in_order(narrow, group.rows(), ring_lanes, HopMode::overlapped, group.number());
    }
    return predict_backward_hops(narrow, group.rows(), backward_lanes(group), group.number());
  }

  static BackwardLanes backward_lanes(const HeadGroup& group) {
    const pattern::Layout layout = group.narrow().layout();
    return {ring_lanes(layout, group.rows(), group.number()),
            ring_gradient_lanes(layout, group.rows(), group.number())};
  }

  static HeadGroup::BackwardInputs take_inputs(const HeadGroup& group, const comm::Communicator& inside,
                                               const Problem& problem, Index own_rows, const Tensors& tensors,
                                               core::HopMetrics& metrics) {
    const core::Buffer delta = make_delta(problem, own_rows, tensors);
    HeadGroup::BackwardInputs narrow;
    core::timed_wait(metrics, [&] { narrow = group.take_backward_heads(inside, tensors, delta); });
    return narrow;
  }

  /// Makes narrow.tensors.dq and returns the sums for the group's K/V rows; frees what only the kernel reads.
  static core::Buffer compute(const HeadGroup& group, const comm::Communicator& across,
                              HeadGroup::BackwardInputs& narrow, const Progress& progress, core::RankMetrics& metrics) {
    const pattern::StoredRows& rows = group.rows()[std::size_t(group.number())];
    BackwardComputation computation(group.narrow(), rows, narrow.tensors, std::exchange(narrow.delta, {}),
                                    kept_of(group.narrow(), rows), progress);
    if (group.narrow().reproducible) {
      backward_hops_in_order(group.narrow(), group.rows(), ring_lanes, HopMode::overlapped, across, narrow.tensors,
                             computation, metrics);
    } else {
      backward_in_hops(group.narrow(), group.rows(), backward_lanes(group), HopMode::overlapped, across,
                       own_block(narrow.tensors, rows), computation, metrics);
    }
    core::Buffer sums = computation.finish_queries(metrics.hops.back());
    narrow.tensors.q = narrow.tensors.kv = narrow.tensors.dout = narrow.tensors.normalizers = {};
    return sums;
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
