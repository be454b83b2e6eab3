#include "annulus/comm/single_copy.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "annulus/comm/runtime.hpp"

namespace annulus::comm {

std::string why_no_single_copy() {
  char from = 1, to = 0;
  const iovec remote{&from, 1}, local{&to, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 ? "" : std::strerror(errno);
}

void leave_out_single_copy_where_forbidden() {
  if (mpi_library().rfind("Open MPI", 0) != 0 || why_no_single_copy().empty()) return;
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", /*overwrite=*/0);  // Open MPI 4
  setenv("OMPI_MCA_smsc", "^cma", /*overwrite=*/0);                             // Open MPI 5
}

}  // namespace annulus::comm
