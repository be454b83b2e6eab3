// ring: K and V travel p -> p + 1 hop by hop while the kernel works on the block in hand; Q, out and buffers stay O(n /
// P). ring_blocking: the same hops with blocking sends between the kernel calls, to show what overlap is worth.
#include "annulus/strategies/hop_loop.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {
namespace {

class Ring final : public Strategy {
 public:
  Ring(std::string_view name, std::string_view description, HopMode mode)
      : name_(name), description_(description), mode_(mode) {}

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return pattern::contiguous_partition(problem.shape.sequence, ranks);
  }

  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    return predict_hops(problem, partition, pattern::ring_hops(problem.layout(), partition, rank), rank);
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const std::vector<pattern::Hop> hops = pattern::ring_hops(problem.layout(), partition, comm.rank());
    return forward_in_hops(problem, partition, hops, mode_, comm, tensors, progress);
  }

 private:
  std::string_view name_;
  std::string_view description_;
  HopMode mode_;
};

}  // namespace

std::unique_ptr<Strategy> make_ring() {
  return std::make_unique<Ring>(
      "ring", "pass K and V from neighbour to neighbour, overlapped with compute (O(n/P) memory)", HopMode::overlapped);
}

std::unique_ptr<Strategy> make_ring_blocking() {
  return std::make_unique<Ring>("ring_blocking",
                                "the ring with blocking sends: even ranks send then receive, odd ranks the reverse",
                                HopMode::blocking);
}

}  // namespace annulus::strategies
