#include "annulus/comm/collectives.hpp"

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"

namespace annulus::comm {

void allgather_rows(const Communicator& comm, const RowBlock& own, const RowBlock& all,
                    const std::vector<core::Interval>& owners) {
  std::vector<int> counts, begins;  // in rows: a row's bytes are one MPI element, so counts stay small
  for (const core::Interval& rows : owners) {
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
