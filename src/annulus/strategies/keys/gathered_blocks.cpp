#include "annulus/strategies/keys/gathered_blocks.hpp"

namespace annulus::strategies {

std::vector<KeyBlock> gathered_blocks(const Problem& problem, const pattern::Partition& partition, int rank,
                                      const Tensors& tensors, const core::Buffer& gathered) {
  std::vector<KeyBlock> blocks;
  Index offset = 0;
  for (std::size_t p = 0; p < partition.size(); ++p) {
    if (int(p) == rank) {
      blocks.push_back(own_block(tensors, partition[p]));
      continue;
    }
    blocks.push_back({gathered.at(offset), partition[p].count(), pattern::KeyRows::raw(partition[p])});
    offset += problem.kv_block_bytes(partition[p].count());
  }
  return blocks;
}

std::vector<comm::RowBlock> gathered_messages(const Problem& problem, const std::vector<KeyBlock>& blocks) {
  std::vector<comm::RowBlock> messages;
  for (const KeyBlock& block : blocks) {
    messages.push_back(kv_block(problem, block.data, block.held, problem.kv_row_bytes()));
  }
  return messages;
}

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

}  // namespace annulus::strategies
