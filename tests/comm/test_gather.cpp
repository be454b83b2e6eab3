// Gathering without waiting for all ranks: every block arrives once, where it belongs.
#include <gtest/gtest.h>

#include <set>

#include "gather_case.hpp"

namespace annulus::comm {
namespace {

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
