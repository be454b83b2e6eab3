// stream: keys are read from the input file. So memory holds only one block of rows and some of the rows that this
// block reads, however many rows there are. A block reads from other blocks the rows that a rank of `rotation` would
// receive from other ranks. No messages travel. Inside a phase (block_passes.hpp) no rank waits for another. When a run
// is stopped, it keeps its finished blocks.
#include "annulus/strategies/keys/stream_plan.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

/// Returns blocks of Problem::block_size rows (if it is 0: `ranks` blocks), with cuts only where the grid allows.
pattern::Partition partition(const Problem& problem, int ranks) {
  const Index n = problem.shape.sequence;
  const pattern::CutGrid grid = problem.grid();
  if (problem.block_size == 0) return pattern::on_grid(pattern::contiguous_partition(n, ranks), grid);
  pattern::Partition blocks;
  for (Index begin = 0; begin < n; begin += problem.block_size) {
    const core::Interval rows{grid.nearest(begin), grid.nearest(std::min(n, begin + problem.block_size))};
    if (!rows.empty()) blocks.emplace_back(std::vector<core::Interval>{rows});
  }
  return blocks;
}

}  // namespace

StrategyEntry stream() {
  return {
      .name = "stream",
      .description = "read keys from the input file, block after block: memory of one block, no messages",
      .partition = partition,
      .communication = {CommunicationPattern::store, true},
      .forward = read_from_store(),
      .backward = read_from_store_for_queries(),
      .why_not_reproducible = always_reproducible,           // a block reads all its keys in the fixed order
      .why_no_reproducible_gradients = always_reproducible,  // sums of dk and dv stay in one block (query_stream.hpp)
  };
}

}  // namespace annulus::strategies
