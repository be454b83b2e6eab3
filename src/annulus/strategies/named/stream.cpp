// stream: keys are read from the input file, so that memory holds only one block of rows and what this block reads, for
// any number of rows. A block takes the place of a rank in `rotation`: the same rule says which rows it reads from
// which other block. No messages travel, no rank waits for another, and a finished block need not be computed again.
#include "annulus/strategies/keys/stream_plan.hpp"
#include "annulus/strategies/named/named.hpp"

namespace annulus::strategies {
namespace {

/// Blocks of Problem::block_size rows, rounded to granules (Problem::granule); without a size, `ranks` blocks.
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
      .why_not_reproducible = always_reproducible,
      .why_no_reproducible_gradients = always_reproducible,
  };
}

}  // namespace annulus::strategies
