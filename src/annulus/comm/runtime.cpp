#include "annulus/comm/runtime.hpp"

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <cstdlib>
#include <string_view>

#include "annulus/comm/record.hpp"
#include "annulus/comm/single_copy.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/core/unfinished_files.hpp"

namespace annulus::comm {
namespace {

/// Returns this rank's number among the ranks of its machine. This number selects the GPU.
int node_local_rank() {
  MPI_Comm node = MPI_COMM_NULL;
  blocking("MPI_Comm_split_type", MPI_Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank = 0;
  MPI_Comm_rank(node, &rank);
  blocking("MPI_Comm_free", MPI_Comm_free, &node);
  return rank;
}

/// Between machines connected only by TCP, Open MPI 4 chooses the RMA component `rdma`, although this component cannot
/// make windows there (4.1.4: MPI_ERR_WIN). So we exclude it, unless the user has set this option. Open MPI 5 has only
/// `rdma` for TCP, so we leave Open MPI 5 as it is.
void leave_out_rdma_component() {
  if (mpi_library().rfind("Open MPI v4.", 0) == 0) setenv("OMPI_MCA_osc", "^rdma", /*overwrite=*/0);
}

/// Excludes two components for shared file pointers, which we do not use. When a file is opened, the two write a name
/// derived from the file's path into a buffer that is too short if the path has about 250 characters (Open MPI 4.1.4:
/// aborts the process).
void leave_out_shared_file_pointers() {
  if (mpi_library().rfind("Open MPI", 0) == 0) setenv("OMPI_MCA_sharedfp", "^lockedfile,sm", /*overwrite=*/0);
}

/// A process without other ranks needs no network. Without these settings Open MPI 4.1.4 takes 0.4 s to start instead
/// of 0.05 s, because it waits for network cards and starts `orted`, a process that only MPI_Comm_spawn needs. On a
/// busy machine Open MPI's TCP component can also crash in MPI_Init, because it calls address 0. (We have seen this
/// with several ranks.)
void leave_out_network() {
  if (mpi_library().rfind("Open MPI", 0) != 0) return;
  setenv("OMPI_MCA_pml", "ob1", /*overwrite=*/0);  // the others, `cm` and `ucx`, look for network cards
  setenv("OMPI_MCA_btl", "self", /*overwrite=*/0);
  setenv("OMPI_MCA_ess_singleton_isolated", "1", /*overwrite=*/0);  // no orted
  // Without orted, all such processes of a user would share one session folder in /tmp, which they do not need. A
  // process that ends removes the folder. If another process starts at this moment, MPI_Init ends that process (4.1.4).
  setenv("OMPI_MCA_orte_create_session_dirs", "0", /*overwrite=*/0);
}

}  // namespace

Runtime::Runtime(int& argc, char**& argv, bool alone) {
  leave_out_rdma_component();
  leave_out_shared_file_pointers();
  leave_out_single_copy_where_forbidden();
  if (alone) leave_out_network();
  int provided = 0;
  blocking("MPI_Init_thread", MPI_Init_thread, &argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  record().rank = rank;
  if (provided < MPI_THREAD_FUNNELED) {
    core::print_to_stderr(
        "annulus: error: MPI_Init_thread: the thread level is {}, expected MPI_THREAD_FUNNELED ({})\n", provided,
        MPI_THREAD_FUNNELED);
    abort_job(1);
  }
  core::initialize_kokkos(argc, argv, node_local_rank());
}

Runtime::~Runtime() {
  if (Kokkos::is_initialized()) Kokkos::finalize();
  blocking_quietly("MPI_Finalize", MPI_Finalize);
}

void abort_job(int status) {
  set_final_status(status);
  core::remove_unfinished_files_within(2);  // s; this may be the last rank that can remove them
  blocking_quietly("MPI_Abort", MPI_Abort, MPI_COMM_WORLD, status);
  std::_Exit(status);
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string_view all(text.data(), std::size_t(length));
  int version = 0, subversion = 0;
  MPI_Get_version(&version, &subversion);
  // Libraries return several lines. The text up to a comma (Open MPI) or line end (MPICH) is the name and version.
  return std::string(all.substr(0, all.find_first_of(",\n"))) + " (MPI " + std::to_string(version) + "." +
         std::to_string(subversion) + ")";
}

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> text{};
  int length = 0;
  MPI_Get_processor_name(text.data(), &length);
  return std::string(text.data(), std::size_t(length));
}

}  // namespace annulus::comm
