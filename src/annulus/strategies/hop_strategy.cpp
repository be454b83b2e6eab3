#include "annulus/strategies/hop_strategy.hpp"

#include "annulus/strategies/ordered_backward.hpp"

namespace annulus::strategies {
namespace {

class HopStrategy final : public Strategy {
 public:
  HopStrategy(std::string_view name, std::string_view description, HopMode mode, Movement movement, MakeLanes lanes,
              MakeGradients gradients, std::string_view disorder)
      : name_(name),
        description_(description),
        mode_(mode),
        movement_(movement),
        lanes_(std::move(lanes)),
        gradients_(std::move(gradients)),
        disorder_(disorder) {}

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return ordered_partition(problem, ranks);
  }
  std::string not_reproducible(const Problem& problem, int) const override {
    return disorder_.empty() ? disorder_of(problem) : std::string(disorder_);
  }
  std::string not_reproducible_gradients(const Problem& problem, int ranks) const override {
    return not_reproducible(problem, ranks);  // sums wander with the rows
  }
  CommunicationShape communication(const Problem&, int) const override {
    return {movement_, mode_ == HopMode::overlapped};
  }
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    return predict_hops(problem, partition, lanes_, rank);
  }
  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    return forward_in_hops(problem, partition, lanes_, mode_, comm, tensors, progress);
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    Prediction prediction =
        in_order(problem) ? predict_hops_in_order(problem, partition, lanes_, mode_, rank)
                          : predict_backward_hops(problem, partition, backward_lanes(problem, partition, rank), rank);
    prediction.memory_bytes += backward_inputs(problem, partition[std::size_t(rank)].count());
    return prediction;
  }
  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    core::RankMetrics metrics{rows.count(), {}};
    BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                    kept_of(problem, rows), progress);
    if (in_order(problem)) {
      backward_hops_in_order(problem, partition, lanes_, mode_, comm, tensors, computation, metrics);
    } else {
      const BackwardLanes lanes = backward_lanes(problem, partition, comm.rank());
      backward_in_hops(problem, partition, lanes, mode_, comm, own_block(tensors, rows), computation, metrics);
    }
    computation.finish(metrics.hops.back());
    return metrics;
  }

 private:
  bool in_order(const Problem& problem) const { return problem.reproducible && disorder_.empty(); }
  BackwardLanes backward_lanes(const Problem& problem, const pattern::Partition& partition, int rank) const {
    return {lanes_(problem.layout(), partition, rank), gradients_(problem.layout(), partition, rank)};
  }

  std::string_view name_;
  std::string_view description_;
  HopMode mode_;
  Movement movement_;
  MakeLanes lanes_;
  MakeGradients gradients_;
  std::string_view disorder_;
};

}  // namespace

std::unique_ptr<Strategy> make_hop_strategy(std::string_view name, std::string_view description, HopMode mode,
                                            Movement movement, MakeLanes lanes, MakeGradients gradients,
                                            std::string_view disorder) {
  return std::make_unique<HopStrategy>(name, description, mode, movement, std::move(lanes), std::move(gradients),
                                       disorder);
}

}  // namespace annulus::strategies
