// Gathering without waiting: every block arrives once, where it belongs, and a late rank holds up nobody else's.
#include "annulus/comm/gather.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/stamped_block.hpp"

namespace annulus::comm {
namespace {

using test::Block;
using test::stamp;
using test::width;

/// A block per rank of `parts` parts, where rank r's has rows(r) rows; the own one is filled.
template <class Rows>
std::vector<Block> make_blocks(const Communicator& comm, Index parts, Rows&& rows) {
  std::vector<Block> blocks;
  for (int r = 0; r < comm.size(); ++r) blocks.emplace_back(parts, rows(r));
  blocks[std::size_t(comm.rank())].fill([&](Index p, Index r, Index c) { return stamp(comm.rank(), p, r, c); });
  return blocks;
}

std::vector<RowBlock> all_rows(const std::vector<Block>& blocks) {
  std::vector<RowBlock> rows;
  for (const Block& block : blocks) rows.push_back(block.rows({0, block.held}));
  return rows;
}

void expect_stamps(const Block& block, int owner) {
  const std::vector<double> values = block.values();
  std::size_t i = 0;
  for (Index p = 0; p < block.parts; ++p) {
    for (Index r = 0; r < block.held; ++r) {
      for (Index c = 0; c < width; ++c) EXPECT_EQ(values[i++], stamp(owner, p, r, c)) << "part " << p << " row " << r;
    }
  }
}

TEST(Gather, HandsOutEveryBlockOnceAndRanksWithoutRowsNever) {
  const Communicator comm(MPI_COMM_WORLD);
  Gather gather(comm);
  for (int round = 0; round < 3; ++round) {  // one object serves several gathers
    const std::vector<Block> blocks = make_blocks(comm, 4, [&](int r) { return Index(2 * ((r + round) % 3)); });
    const std::vector<RowBlock> rows = all_rows(blocks);
    gather.start(rows[std::size_t(comm.rank())], rows);
    for (int i = 0; i < 5; ++i) gather.progress();
    std::set<int> came;
    while (const std::optional<int> owner = gather.next()) {
      EXPECT_TRUE(came.insert(*owner).second) << "rank " << *owner << " came twice";
      EXPECT_GT(blocks[std::size_t(*owner)].held, 0);
      expect_stamps(blocks[std::size_t(*owner)], *owner);
    }
    gather.finish();
    std::set<int> expected;
    for (int r = 0; r < comm.size(); ++r) {
      if (r != comm.rank() && blocks[std::size_t(r)].held > 0) expected.insert(r);
    }
    EXPECT_EQ(came, expected);
    expect_stamps(blocks[std::size_t(comm.rank())], comm.rank());
  }
}

TEST(Gather, ALateRankHoldsUpNoOtherBlock) {
  // Rank 0 sends only when all others have told it that they hold every block but its own.
  const Communicator comm(MPI_COMM_WORLD);
  const std::vector<Block> blocks = make_blocks(comm, 2, [](int) { return Index(5); });
  const std::vector<RowBlock> rows = all_rows(blocks);
  constexpr int told = 7;
  Gather gather(comm);
  if (comm.rank() == 0) {
    for (int r = 1; r < comm.size(); ++r) {
      MPI_Recv(nullptr, 0, MPI_BYTE, r, told, comm.handle(), MPI_STATUS_IGNORE);
    }
  }
  gather.start(rows[std::size_t(comm.rank())], rows);
  if (comm.rank() > 0) {
    for (int i = 0; i < comm.size() - 2; ++i) EXPECT_NE(gather.next(), 0);
    MPI_Send(nullptr, 0, MPI_BYTE, 0, told, comm.handle());
    EXPECT_EQ(gather.next(), 0);
  }
  while (gather.next()) continue;
  gather.finish();
  for (int r = 0; r < comm.size(); ++r) expect_stamps(blocks[std::size_t(r)], r);
}

TEST(Gather, RefusesToEndBeforeAllBlocksAreTaken) {
  const Communicator comm(MPI_COMM_WORLD);
  const std::vector<Block> blocks = make_blocks(comm, 1, [](int) { return Index(1); });
  const std::vector<RowBlock> rows = all_rows(blocks);
  Gather gather(comm);
  EXPECT_THROW(gather.start(rows[std::size_t(comm.rank())], {}), core::Error) << "a block of every rank is needed";
  gather.start(rows[std::size_t(comm.rank())], rows);
  if (comm.size() > 1) {
    EXPECT_THROW(gather.finish(), core::Error);
  }
  while (gather.next()) continue;
  gather.finish();
}

}  // namespace
}  // namespace annulus::comm
