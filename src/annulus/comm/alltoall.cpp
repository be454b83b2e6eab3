#include "annulus/comm/alltoall.hpp"

#include "annulus/comm/requests.hpp"
#include "annulus/comm/staging.hpp"

namespace annulus::comm {
namespace {

/// The array with all its rows selected: all of it travels, so all of it is staged.
RowBlock whole(RowBlock array) {
  array.rows = {0, array.held};
  return array;
}

}  // namespace

Index Piece::row_count() const {
  Index count = 0;
  for (const core::Interval& interval : rows) count += interval.size();
  return count;
}

void alltoall_pieces(const Communicator& comm, const RowBlock& from, const std::vector<Piece>& sends,
                     const RowBlock& to, const std::vector<Piece>& receives) {
  Staged source(whole(from)), target(whole(to));
  source.load();
  Requests requests;
  // Step d receives from rank - d and sends to rank + d: at any time every rank is the target of about one other.
  for (int d = 0; d < comm.size(); ++d) {
    const int peer = core::wrap(comm.rank() - d, comm.size());
    const Piece& piece = receives[std::size_t(peer)];
    if (piece.empty()) continue;
    const Datatype type = Datatype::columns(target.block(), piece.rows, piece.columns);
    check_mpi(MPI_Irecv(target.block().data, 1, type.handle(), peer, 0, comm.handle(),
                        requests.add({Outstanding::Kind::receive, peer, type.bytes(), ""})),
              "MPI_Irecv");
  }
  for (int d = 0; d < comm.size(); ++d) {
    const int peer = core::wrap(comm.rank() + d, comm.size());
    const Piece& piece = sends[std::size_t(peer)];
    if (piece.empty()) continue;
    const Datatype type = Datatype::columns(source.block(), piece.rows, piece.columns);
    check_mpi(MPI_Isend(source.block().data, 1, type.handle(), peer, 0, comm.handle(),
                        requests.add({Outstanding::Kind::send, peer, type.bytes(), ""})),
              "MPI_Isend");
  }
  requests.wait();
  target.store();
}

}  // namespace annulus::comm
