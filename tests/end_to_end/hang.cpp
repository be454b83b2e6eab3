// A program whose ranks make an unfinished file each, and then hang in MPI_Recv, which never returns, like a collective
// file operation after the loss of a node. With the argument "abort" both ranks know one file, and rank 1 ends the job.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <string_view>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/unfinished_files.hpp"

namespace {

void note(const std::string& path) {
  struct stat about {};
  const int file = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  if (fstat(file, &about) == 0) annulus::core::note_unfinished_file(path, {about.st_dev, about.st_ino});
}

}  // namespace

int main(int argc, char** argv) {
  const bool abort = argc == 2 && argv[1] == std::string_view("abort");
  const annulus::comm::Runtime runtime(argc, argv);
  const annulus::comm::Communicator comm(MPI_COMM_WORLD);
  const annulus::comm::Watchdog watchdog(comm, 4);  // a rank that ends waits a second for what the other says
  const annulus::comm::Scope place("a receive that nobody answers");
  note("unfinished." + std::to_string(abort ? 0 : comm.rank()));
  comm.barrier();
  if (abort && comm.rank() == 1) {
    std::fputs("rank 1 ends the job\n", stderr);
    annulus::comm::abort_job(1);
  }
  const annulus::comm::BlockingScope inside("MPI_Recv");
  char nothing = 0;
  return MPI_Recv(&nothing, 1, MPI_CHAR, MPI_ANY_SOURCE, 0, comm.handle(), MPI_STATUS_IGNORE);
}
