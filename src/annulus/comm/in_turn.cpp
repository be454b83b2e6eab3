#include "annulus/comm/in_turn.hpp"

#include <limits>

#include "annulus/comm/requests.hpp"

namespace annulus::comm {
namespace {

constexpr int tag = 32002;

}  // namespace

void take_in_turn(const Communicator& comm, const std::string& text,
                  const std::function<void(const std::string& text)>& take) {
  core::require(text.size() <= std::size_t(std::numeric_limits<int>::max()), [] { return "a text of 2 GiB or more"; });
  const std::vector<double> lengths = comm.gather_to_root({double(text.size())});
  Requests requests;
  if (!comm.is_root()) {
    check_mpi(MPI_Isend(text.data(), int(text.size()), MPI_CHAR, 0, tag, comm.handle(),
                        requests.add({Outstanding::Kind::send, 0, Index(text.size())})),
              "MPI_Isend");
    requests.wait();
    return;
  }
  take(text);
  for (int rank = 1; rank < comm.size(); ++rank) {
    std::string theirs(std::size_t(lengths[std::size_t(rank)]), '\0');
    check_mpi(MPI_Irecv(theirs.data(), int(theirs.size()), MPI_CHAR, rank, tag, comm.handle(),
                        requests.add({Outstanding::Kind::receive, rank, Index(theirs.size())})),
              "MPI_Irecv");
    requests.wait();
    take(theirs);
  }
}

}  // namespace annulus::comm
