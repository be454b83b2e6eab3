#include "annulus/comm/clock.hpp"

#include <cmath>
#include <limits>

#include "annulus/comm/requests.hpp"

namespace annulus::comm {
namespace {

constexpr int rounds = 100;  // round trips per rank; the fastest one is rarely disturbed, also if ranks share cores
constexpr int tag = 32001;

void send_time(const Communicator& comm, int peer, double time) {
  Requests requests;
  check_mpi(MPI_Isend(&time, 1, MPI_DOUBLE, peer, tag, comm.handle(),
                      requests.add({Outstanding::Kind::send, peer, Index(sizeof time)})),
            "MPI_Isend");
  requests.wait();
}

double receive_time(const Communicator& comm, int peer) {
  double time = 0;
  Requests requests;
  check_mpi(MPI_Irecv(&time, 1, MPI_DOUBLE, peer, tag, comm.handle(),
                      requests.add({Outstanding::Kind::receive, peer, Index(sizeof time)})),
            "MPI_Irecv");
  requests.wait();
  return time;
}

}  // namespace

ClockOffset compare_clocks(const Communicator& comm, const std::function<double()>& now) {
  if (comm.is_root()) {
    for (int rank = 1; rank < comm.size(); ++rank) {
      for (int i = 0; i < rounds; ++i) {
        receive_time(comm, rank);
        send_time(comm, rank, now());
      }
    }
    return {now(), 0, 0};
  }
  ClockOffset best;
  best.error = std::numeric_limits<double>::infinity();
  for (int i = 0; i < rounds; ++i) {
    const double sent = now();
    send_time(comm, 0, sent);
    const double of_root = receive_time(comm, 0), received = now();
    const double middle = (sent + received) / 2, error = (received - sent) / 2;
    if (error < best.error) best = {middle, of_root - middle, error};
  }
  return best;
}

ClockOffset better(const ClockOffset& first, const ClockOffset& last) {
  return first.error < last.error ? first : last;
}

double to_root_clock(const ClockOffset& first, const ClockOffset& last, double time) {
  const double drift = last.ahead - first.ahead;
  if (std::abs(drift) <= first.error + last.error) return time + better(first, last).ahead;
  return time + first.ahead + (time - first.at) / (last.at - first.at) * drift;
}

}  // namespace annulus::comm
