// allgather_overlap: all of K and V on every rank as in allgather, but while they travel the kernel works on the own
// rows, and then on each rank's rows as they arrive, whichever come first. O(n) memory per rank.
#include "annulus/comm/gather.hpp"
#include "annulus/strategies/gather_backward.hpp"
#include "annulus/strategies/gathered_blocks.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {
namespace {

class AllgatherOverlap final : public Strategy {
 public:
  std::string_view name() const override { return "allgather_overlap"; }
  std::string_view description() const override {
    return "allgather without waiting: own rows first, then each rank's rows as they arrive (O(n) memory)";
  }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return distributed_partition(problem, ranks);
  }

  std::string not_reproducible(const Problem&, int) const override {
    return "it computes with blocks in the order in which they happen to arrive";
  }
  std::string not_reproducible_gradients(const Problem&, int) const override {
    return "ranks make sums of dk and dv apart, for their owner to add up";
  }
  CommunicationShape communication(const Problem&, int) const override { return {Movement::gather, true}; }

  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    const Index n = problem.shape.sequence, foreign = problem.kv_block_bytes(n - rows.count());
    return {local_memory(problem, rows.count(), foreign),
            problem.kv_block_bytes(rows.count()) * Index(partition.size() - 1), foreign, kept_of(problem, rows)};
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    core::RankMetrics metrics{rows.count(), std::vector<core::HopMetrics>(partition.size())};
    Computation computation(problem, rows, tensors, kept_of(problem, rows), progress);
    gather_and_compute(problem, partition, comm, tensors, computation, metrics);
    computation.finish(metrics.hops.back());
    return metrics;
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    return predict_gathered_backward(problem, partition, rank);
  }
  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    return backward_gathered(problem, partition, HopMode::overlapped, comm, tensors, progress);
  }

 private:
  /// Hop d of the metrics is the rows of rank - d, whenever they come.
  static void gather_and_compute(const Problem& problem, const pattern::Partition& partition,
                                 const comm::Communicator& comm, const Tensors& tensors, Computation& computation,
                                 core::RankMetrics& metrics) {
    const int ranks = comm.size(), rank = comm.rank();
    const Index own = partition[std::size_t(rank)].count();
    const core::Buffer gathered("gathered kv", problem.kv_block_bytes(problem.shape.sequence - own));
    const std::vector<KeyBlock> blocks = gathered_blocks(problem, partition, rank, tensors, gathered);
    const std::vector<comm::RowBlock> messages = gathered_messages(problem, blocks);

    comm::Gather gather(comm);  // behind the buffer: when an error unwinds, messages end before it does
    const auto poll = [&] { gather.progress(); };
    gather.start(messages[std::size_t(rank)], messages);
    computation.add(blocks[std::size_t(rank)], core::Mask::all, "own rows", metrics.hops[0], poll);
    for (int d = 1; d < ranks; ++d) metrics.hops[std::size_t(d)].bytes_sent = problem.kv_block_bytes(own);
    double start = core::wall_seconds();
    while (const std::optional<int> owner = gather.next()) {
      core::HopMetrics& hop = metrics.hops[std::size_t(core::wrap(rank - *owner, ranks))];
      hop.wait_seconds = core::wall_seconds() - start;
      hop.bytes_received = messages[std::size_t(*owner)].bytes();
      hop.rows_received = blocks[std::size_t(*owner)].held;
      computation.add(blocks[std::size_t(*owner)], core::Mask::all, fmt::format("rows of rank {}", *owner), hop, poll);
      start = core::wall_seconds();
    }
    gather.finish();
    metrics.hops.back().wait_seconds += core::wall_seconds() - start;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_allgather_overlap() { return std::make_unique<AllgatherOverlap>(); }

}  // namespace annulus::strategies
