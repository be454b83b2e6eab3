#include "annulus/comm/window_room.hpp"

#include <sys/statvfs.h>

#include <array>

namespace annulus::comm {
namespace {

/// Returns the value of a text setting of the MPI library; empty if the library has no such setting.
std::string mpi_setting(const char* name) {
  int provided = 0, index = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return "";
  std::string text;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    std::array<char, 4096> value{};
    if (count < int(value.size()) && MPI_T_cvar_read(handle, value.data()) == MPI_SUCCESS) text = value.data();
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return text;
}

std::string mib(Index bytes) { return fmt::format("{:.1f} MiB", double(bytes) / (1024 * 1024)); }

}  // namespace

WindowRoom window_room() {
  const std::string asked = mpi_setting("osc_sm_backing_directory");  // Open MPI
  WindowRoom room{asked.empty() ? "/dev/shm" : asked};
  struct statvfs system {};
  if (statvfs(room.folder.c_str(), &system) == 0) room.bytes = Index(system.f_bavail) * Index(system.f_frsize);
  return room;
}

std::string window_lack(Index need, const WindowRoom& room) {
  if (room.bytes < 0 || need + need / 20 <= room.bytes) return "";
  return fmt::format(
      "the windows of this node's ranks need {} of shared memory, {} has {} free; expected more (docker run "
      "--shm-size, mount -o remount,size=...), a folder with room for Open MPI (OMPI_MCA_osc_sm_backing_directory), or "
      "another strategy than onesided",
      mib(need + need / 20), room.folder, mib(room.bytes));
}

void require_window_room(const Communicator& comm, Index bytes, const WindowRoom& room) {
  const Index need = comm.sum_of_node(bytes);
  agree(comm, [&] {
    if (const std::string lack = window_lack(need, room); !lack.empty()) {
      core::fail(core::ErrorKind::failure, "{}", lack);
    }
  });
}

}  // namespace annulus::comm
