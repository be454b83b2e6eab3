// single: rank 0 holds all rows and computes, the others wait.
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {
namespace {

class Single final : public Strategy {
 public:
  std::string_view name() const override { return "single"; }
  std::string_view description() const override { return "rank 0 holds and computes everything, the others wait"; }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return pattern::root_partition(problem.shape.sequence, ranks);
  }

  std::string not_reproducible(const Problem&, int) const override { return ""; }
  std::string not_reproducible_gradients(const Problem&, int) const override { return ""; }
  CommunicationShape communication(const Problem&, int) const override { return {Movement::none}; }
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    return {compute_all_memory(problem, rows.count(), 0), 0, 0, kept_of(problem, rows)};
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    return {rows.count(), {compute_all(problem, rows, own_block(tensors, rows), "own rows", tensors, progress)}};
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    return {backward_memory(problem, rows.count(), 0), 0, 0, kept_of(problem, rows)};
  }

  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    core::RankMetrics metrics{rows.count(), {{}}};
    BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                    kept_of(problem, rows), progress);
    computation.add_own(own_block(tensors, rows), "own rows", metrics.hops[0]);
    computation.finish(metrics.hops[0]);
    return metrics;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_single() { return std::make_unique<Single>(); }

}  // namespace annulus::strategies
