#include "annulus/comm/collectives.hpp"

#include <limits>

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"

namespace annulus::comm {
namespace {

void allgather_by_nccl(NcclChannel& nccl, const RowBlock& own, const RowBlock& all,
                       const std::vector<core::Interval>& owners) {
  std::vector<NcclMessage> sends, receives;
  for (std::size_t peer = 0; peer < owners.size(); ++peer) {
    RowBlock of_peer = all;
    of_peer.rows = owners[peer];
    sends.push_back(nccl_message(int(peer), own));
    receives.push_back(nccl_message(int(peer), of_peer));
  }
  nccl.wait({nccl.start(std::move(sends), std::move(receives))});
}

}  // namespace

void allgather_rows(const Communicator& comm, const RowBlock& own, const RowBlock& all,
                    const std::vector<core::Interval>& owners) {
  if (NcclChannel* const nccl = channel_of(comm)) return allgather_by_nccl(*nccl, own, all, owners);
  std::vector<int> counts, begins;  // in rows: one MPI element is a whole row, so that the counts fit into int
  for (const core::Interval& rows : owners) {
    if (rows.end > std::numeric_limits<int>::max()) {
      core::fail(core::ErrorKind::usage, "the rows of all ranks cannot be gathered: {} rows, expected at most {}",
                 rows.end, std::numeric_limits<int>::max());
    }
    counts.push_back(int(rows.size()));
    begins.push_back(int(rows.begin));
  }
  const Datatype row = Datatype::contiguous(own.row_bytes);
  Staged from(own), to(all);
  from.load();
  from.wait_until_loaded();
  for (Index part = 0; part < own.parts; ++part) {
    const auto* source = static_cast<std::byte*>(from.block().data) + part * from.block().held * own.row_bytes;
    auto* target = static_cast<std::byte*>(to.block().data) + part * to.block().held * own.row_bytes;
    run_collective("MPI_Iallgatherv", [&](MPI_Request* request) {
      return MPI_Iallgatherv(source, int(own.rows.size()), row.handle(), target, counts.data(), begins.data(),
                             row.handle(), comm.handle(), request);
    });
  }
  to.store();
  to.arrive();
}

}  // namespace annulus::comm
