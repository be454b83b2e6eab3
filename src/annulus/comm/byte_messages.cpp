#include "annulus/comm/byte_messages.hpp"

#include <limits>

#include "annulus/comm/requests.hpp"

namespace annulus::comm {
namespace {

constexpr int tag = 4711;

/// Returns how many bytes each rank sends to this rank.
std::vector<Index> arriving_bytes(const Communicator& comm, const ByteMessages& sends) {
  std::vector<Index> leaving(std::size_t(comm.size()), 0), arriving(std::size_t(comm.size()), 0);
  for (const auto& [peer, bytes] : sends) {
    core::require(Index(bytes.size()) <= std::numeric_limits<int>::max(), [&] { return "a message of 2 GiB or more"; });
    leaving[std::size_t(peer)] = Index(bytes.size());
  }
  run_collective("MPI_Ialltoall", [&](MPI_Request* request) {
    return MPI_Ialltoall(leaving.data(), 1, MPI_INT64_T, arriving.data(), 1, MPI_INT64_T, comm.handle(), request);
  });
  return arriving;
}

}  // namespace

ByteMessages exchange_bytes(const Communicator& comm, const ByteMessages& sends) {
  if (comm.is_alone()) return sends;
  const std::vector<Index> arriving = arriving_bytes(comm, sends);
  ByteMessages received;
  Requests requests;
  for (int peer = 0; peer < comm.size(); ++peer) {
    const Index bytes = arriving[std::size_t(peer)];
    if (bytes == 0) continue;
    std::vector<std::byte>& message = received[peer];
    message.resize(std::size_t(bytes));
    MPI_Request* request = requests.add({Outstanding::Kind::receive, peer, bytes, "MPI_Irecv"});
    check_mpi(MPI_Irecv(message.data(), int(bytes), MPI_BYTE, peer, tag, comm.handle(), request), "MPI_Irecv");
  }
  for (const auto& [peer, message] : sends) {
    if (message.empty()) continue;
    MPI_Request* request = requests.add({Outstanding::Kind::send, peer, Index(message.size()), "MPI_Isend"});
    check_mpi(MPI_Isend(message.data(), int(message.size()), MPI_BYTE, peer, tag, comm.handle(), request), "MPI_Isend");
  }
  requests.wait();
  return received;
}

}  // namespace annulus::comm
