#include "annulus/strategies/hop_strategy.hpp"

namespace annulus::strategies {
namespace {

class HopStrategy final : public Strategy {
 public:
  HopStrategy(std::string_view name, std::string_view description, HopMode mode, Movement movement, MakeLanes lanes)
      : name_(name), description_(description), mode_(mode), movement_(movement), lanes_(std::move(lanes)) {}

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return distributed_partition(problem, ranks);
  }
  CommunicationShape communication(const Problem&, int) const override {
    return {movement_, mode_ == HopMode::overlapped};
  }
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    return predict_hops(problem, partition, lanes_(problem.layout(), partition, rank), rank);
  }
  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const Lanes lanes = lanes_(problem.layout(), partition, comm.rank());
    return forward_in_hops(problem, partition, lanes, mode_, comm, tensors, progress);
  }

 private:
  std::string_view name_;
  std::string_view description_;
  HopMode mode_;
  Movement movement_;
  MakeLanes lanes_;
};

}  // namespace

std::unique_ptr<Strategy> make_hop_strategy(std::string_view name, std::string_view description, HopMode mode,
                                            Movement movement, MakeLanes lanes) {
  return std::make_unique<HopStrategy>(name, description, mode, movement, std::move(lanes));
}

}  // namespace annulus::strategies
