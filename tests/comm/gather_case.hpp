// Blocks of all ranks, for tests of gathering.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "annulus/comm/gather.hpp"
#include "support/stamped_block.hpp"

namespace annulus::comm {

using test::Block;
using test::stamp;
using test::width;

/// One block for each rank, with `parts` parts and, for rank r, rows(r) rows. Only this rank's own block is filled.
template <class Rows>
std::vector<Block> make_blocks(const Communicator& comm, Index parts, Rows&& rows) {
  std::vector<Block> blocks;
  for (int r = 0; r < comm.size(); ++r) blocks.emplace_back(parts, rows(r));
  blocks[std::size_t(comm.rank())].fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
  return blocks;
}

inline std::vector<RowBlock> all_rows(const std::vector<Block>& blocks) {
  std::vector<RowBlock> rows;
  for (const Block& block : blocks) rows.push_back(block.rows({0, block.held}));
  return rows;
}

inline void expect_stamps(const Block& block, int owner) {
  const std::vector<double> values = block.values();
  std::size_t i = 0;
  for (Index p = 0; p < block.parts; ++p) {
    for (Index r = 0; r < block.held; ++r) {
      for (Index c = 0; c < width; ++c) EXPECT_EQ(values[i++], stamp(owner, p, r, c)) << "part " << p << " row " << r;
    }
  }
}

}  // namespace annulus::comm
