#include "annulus/comm/alltoall.hpp"

#include "annulus/comm/exchange.hpp"

namespace annulus::comm {
namespace {

/// Returns the array with all rows selected, so that Staged copies all of them.
RowBlock whole(RowBlock array) {
  array.rows = {0, array.held};
  return array;
}

/// True if the pieces, which do not overlap, cover the whole array.
bool are_all_of(const RowBlock& array, const std::vector<Piece>& pieces) {
  Index bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.row_count() * piece.columns.size();
  return bytes == array.held * array.row_bytes;
}

/// Returns the message that carries a piece. The message's lines are in the order of Datatype::columns().
NcclMessage message_of(int peer, const RowBlock& array, const Piece& piece) {
  NcclMessage message{peer, {}};
  if (piece.empty()) return message;
  for (Index part = 0; part < array.parts; ++part) {
    for (const core::Interval& rows : piece.rows) {
      const Index first = (part * array.held + rows.begin) * array.row_bytes + piece.columns.begin;
      message.lines.push_back(
          {static_cast<std::byte*>(array.data) + first, piece.columns.size(), rows.size(), array.row_bytes});
    }
  }
  return message;
}

void alltoall_by_nccl(NcclChannel& nccl, const RowBlock& from, const std::vector<Piece>& sends, const RowBlock& to,
                      const std::vector<Piece>& receives) {
  std::vector<NcclMessage> out, in;
  for (std::size_t peer = 0; peer < sends.size(); ++peer) {
    out.push_back(message_of(int(peer), from, sends[peer]));
    in.push_back(message_of(int(peer), to, receives[peer]));
  }
  nccl.wait({nccl.start(std::move(out), std::move(in))});
}

}  // namespace

Index Piece::row_count() const {
  Index count = 0;
  for (const core::Interval& interval : rows) count += interval.size();
  return count;
}

void alltoall_pieces(const Communicator& comm, const RowBlock& from, const std::vector<Piece>& sends,
                     const RowBlock& to, const std::vector<Piece>& receives) {
  if (NcclChannel* const nccl = channel_of(comm)) return alltoall_by_nccl(*nccl, from, sends, to, receives);
  Staged source(whole(from)), target(whole(to));
  source.load();
  // A staged array is copied back as a whole. So if the received pieces do not cover the array, the array must be
  // loaded first, because the copy overwrites the other bytes, too.
  if (!are_all_of(to, receives)) target.load();
  source.wait_until_loaded();
  target.wait_until_loaded();
  Requests requests;
  // Receives from rank - d and sends to rank + d start in the order of d, so that not all ranks send to one rank at
  // once.
  const auto type_of = [](const Staged& array, const Piece& piece) {
    return Datatype::columns(array.block(), piece.rows, piece.columns);
  };
  for (int d = 0; d < comm.size(); ++d) {
    const int peer = core::wrap(comm.rank() - d, comm.size());
    const Piece& piece = receives[std::size_t(peer)];
    if (!piece.empty()) start_receive(requests, comm, peer, 0, target.block().data, type_of(target, piece));
  }
  for (int d = 0; d < comm.size(); ++d) {
    const int peer = core::wrap(comm.rank() + d, comm.size());
    const Piece& piece = sends[std::size_t(peer)];
    if (!piece.empty()) start_send(requests, comm, peer, 0, source.block().data, type_of(source, piece));
  }
  requests.wait();
  target.store();
  target.arrive();
}

}  // namespace annulus::comm
