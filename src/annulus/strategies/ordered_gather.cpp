// K and V gathered before backward_in_order() begins: all blocks are at hand, only the sums wander.
#include <algorithm>

#include "annulus/comm/gather.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/gather_backward.hpp"
#include "annulus/strategies/gathered_blocks.hpp"
#include "annulus/strategies/ordered_backward.hpp"

namespace annulus::strategies {
namespace {

using pattern::Partition;

/// The one slice that there is; `blocks` are the ranks' rows, rank after rank. Throws for rows that do not follow one
/// another: sums go from rank to rank in the order of rows.
std::vector<OrderedSlice> plan(const Problem& pass, const Partition& partition, int rank,
                               const std::vector<KeyBlock>& blocks) {
  const Partition all = pattern::slice_of(partition, 1, 0);
  OrderedSlice slice{pattern::ordered_gradients(pass.layout(), partition, all, rank), {}};
  for (const pattern::GradientHop& step : slice.travel) slice.keys.push_back(blocks[std::size_t(step.owner)]);
  return {slice};
}

class GatheredKeys final : public OrderedKeys {
 public:
  explicit GatheredKeys(const std::vector<OrderedSlice>& slices) : slices_(slices) {}
  void start(std::size_t, core::RankMetrics&) override {}
  void progress() override {}
  void complete(std::size_t, core::RankMetrics&) override {}
  KeyBlock block(std::size_t i, std::size_t s) const override { return slices_[i].keys[s]; }

 private:
  const std::vector<OrderedSlice>& slices_;
};

/// Fills `blocks` with the ranks' rows. Hop d of the metrics is the rows of rank - d.
void gather(const Problem& problem, const comm::Communicator& comm, const std::vector<KeyBlock>& blocks,
            core::RankMetrics& metrics) {
  const int ranks = comm.size(), rank = comm.rank();
  const std::vector<comm::RowBlock> messages = gathered_messages(problem, blocks);
  const comm::Place here("gathering K and V");
  core::timed_wait(metrics.hops[0], [&] {
    comm::Gather gather(comm);
    gather.start(messages[std::size_t(rank)], messages);
    while (gather.next()) {
    }
    gather.finish();
  });
  for (int d = 1; d < ranks; ++d) {
    const auto owner = std::size_t(core::wrap(rank - d, ranks));
    core::HopMetrics& hop = metrics.hops[std::size_t(d)];
    hop.bytes_sent += messages[std::size_t(rank)].bytes();
    hop.bytes_received += messages[owner].bytes();
    hop.rows_received += blocks[owner].held;
  }
}

}  // namespace

Prediction predict_gathered_in_order(const Problem& problem, const Partition& partition, int rank) {
  const pattern::StoredRows& rows = partition[std::size_t(rank)];
  const Index own = rows.count(), foreign = problem.kv_block_bytes(problem.shape.sequence - own);
  const std::vector<KeyBlock> blocks = gathered_blocks(problem, partition, rank, {}, {});
  Prediction all{0, problem.kv_block_bytes(own) * Index(partition.size() - 1), foreign, kept_of(problem, rows)};
  Index most = 0;
  for (const Problem& pass : passes(problem)) {
    const Prediction sums = predict_sums(pass, plan(pass, partition, rank, blocks));
    all.bytes_sent += sums.bytes_sent;
    all.bytes_received += sums.bytes_received;
    most = std::max(most, sums.memory_bytes);
  }
  all.memory_bytes = backward_memory(problem, own, foreign + most);
  return all;
}

core::RankMetrics backward_gathered_in_order(const Problem& problem, const Partition& partition,
                                             const comm::Communicator& comm, Tensors& tensors,
                                             const Progress& progress) {
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  core::RankMetrics metrics{rows.count(), std::vector<core::HopMetrics>(partition.size())};
  BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                  kept_of(problem, rows), progress);
  {
    const core::Buffer gathered("gathered kv", problem.kv_block_bytes(problem.shape.sequence - rows.count()));
    const std::vector<KeyBlock> blocks = gathered_blocks(problem, partition, comm.rank(), tensors, gathered);
    gather(problem, comm, blocks, metrics);
    for (const Problem& pass : passes(problem)) {
      const std::vector<OrderedSlice> slices = plan(pass, partition, comm.rank(), blocks);
      GatheredKeys keys(slices);
      backward_in_order(pass, slices, keys, HopMode::blocking, comm, computation, metrics);
    }
  }
  computation.finish(metrics.hops.back());
  return metrics;
}

}  // namespace annulus::strategies
