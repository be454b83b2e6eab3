// A late rank does not delay the blocks of other ranks. (With NCCL it does, because NCCL's blocks arrive one after
// another.)
#include <gtest/gtest.h>

#include "gather_case.hpp"

namespace annulus::comm {
namespace {

TEST(Gather, ALateRankHoldsUpNoOtherBlock) {
  // Every other rank sends rank 0 a message when it has all blocks except rank 0's. Only then does rank 0 send its
  // block.
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

}  // namespace
}  // namespace annulus::comm
