// allgather: every rank gets all of K and V in one blocking collective, then computes its own queries. Simple, O(n)
// memory per rank.
#include "annulus/comm/collectives.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/gather_backward.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {
namespace {

/// The gathered block: rank after rank, each with its rows in the order in which it holds them.
pattern::KeyRows gathered_rows(const pattern::Partition& partition) {
  std::vector<std::pair<core::Interval, Index>> places;
  Index stored = 0;
  for (const pattern::StoredRows& rows : partition) {
    for (std::size_t i = 0; i < rows.intervals().size(); ++i) {
      places.push_back({rows.intervals()[i], stored + rows.stored_begin(i)});
    }
    stored += rows.count();
  }
  return pattern::KeyRows::raw(std::move(places));
}

class Allgather final : public Strategy {
 public:
  std::string_view name() const override { return "allgather"; }
  std::string_view description() const override {
    return "gather all K and V on every rank, then compute (O(n) memory)";
  }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    // All keys are at hand whatever rank has them; sums of gradients go from rank to rank in the order of rows.
    return problem.gradients ? ordered_partition(problem, ranks) : distributed_partition(problem, ranks);
  }

  std::string not_reproducible(const Problem&, int) const override { return ""; }
  std::string not_reproducible_gradients(const Problem& problem, int) const override { return disorder_of(problem); }
  CommunicationShape communication(const Problem&, int) const override { return {Movement::gather, false}; }
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const Index n = problem.shape.sequence, ranks = Index(partition.size());
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    return {local_memory(problem, rows.count(), problem.kv_block_bytes(n)),
            problem.kv_block_bytes(rows.count()) * (ranks - 1), problem.kv_block_bytes(n - rows.count()),
            kept_of(problem, rows)};
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const Prediction expected = predict(problem, partition, comm.rank());
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const Index n = problem.shape.sequence;
    core::RankMetrics metrics{rows.count(), {{}}};
    core::HopMetrics& hop = metrics.hops[0];
    Computation computation(problem, rows, tensors, expected.kept, progress);
    {
      const core::Buffer all("gathered kv", problem.kv_block_bytes(n));
      const comm::Place place("gathering K and V");
      core::timed_wait(hop, [&] {
        comm::allgather_rows(comm, kv_block(problem, tensors.kv.data(), rows.count(), problem.kv_row_bytes()),
                             kv_block(problem, all.data(), n, problem.kv_row_bytes()), owners(partition));
      });
      hop.bytes_sent = expected.bytes_sent;
      hop.bytes_received = expected.bytes_received;
      hop.rows_received = n - rows.count();
      computation.add_all({all.data(), n, gathered_rows(partition)}, "all rows", hop);
    }
    computation.finish(hop);
    return metrics;
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    return problem.reproducible ? predict_gathered_in_order(problem, partition, rank)
                                : predict_gathered_backward(problem, partition, rank);
  }
  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    if (problem.reproducible) return backward_gathered_in_order(problem, partition, comm, tensors, progress);
    return backward_gathered(problem, partition, HopMode::blocking, comm, tensors, progress);
  }

 private:
  /// Rows of each rank; a rank without rows gets an empty interval at the place where its rows would be.
  static std::vector<core::Interval> owners(const pattern::Partition& partition) {
    std::vector<core::Interval> owners;
    Index next = 0;
    for (const pattern::StoredRows& rows : partition) {
      owners.push_back({next, next + rows.count()});
      next += rows.count();
    }
    return owners;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_allgather() { return std::make_unique<Allgather>(); }

}  // namespace annulus::strategies
