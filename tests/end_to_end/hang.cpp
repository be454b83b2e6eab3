// A program whose ranks hang inside calls that do not return, as a collective file operation does when a node is gone.
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"

int main(int argc, char** argv) {
  const annulus::comm::Runtime runtime(argc, argv);
  const annulus::comm::Communicator comm(MPI_COMM_WORLD);
  const annulus::comm::Watchdog watchdog(comm, 1);
  const annulus::comm::Place place("a receive that nobody answers");
  const annulus::comm::Blocked inside("MPI_Recv");
  char nothing = 0;
  return MPI_Recv(&nothing, 1, MPI_CHAR, MPI_ANY_SOURCE, 0, comm.handle(), MPI_STATUS_IGNORE);
}
