#include "annulus/comm/file_hints.hpp"

#include "annulus/comm/communicator.hpp"
#include "annulus/core/error.hpp"

namespace annulus::comm {

int longest_hint_name() { return MPI_MAX_INFO_KEY - 1; }
int longest_hint_value() { return MPI_MAX_INFO_VAL - 1; }

HintsInfo::HintsInfo(const FileHints& hints) {
  if (hints.empty()) return;
  call_mpi("MPI_Info_create", MPI_Info_create, &info_);
  for (const auto& [name, value] : hints) {
    const int code = blocking("MPI_Info_set", MPI_Info_set, info_, name.c_str(), value.c_str());
    if (code == MPI_SUCCESS) continue;
    blocking_quietly("MPI_Info_free", MPI_Info_free, &info_);
    core::fail(core::ErrorKind::failure, "MPI-IO hint {}: {}: {}", name, value, mpi_error(code));
  }
}

HintsInfo::~HintsInfo() {
  if (info_ != MPI_INFO_NULL) blocking_quietly("MPI_Info_free", MPI_Info_free, &info_);
}

void make_file(const std::string& path, const FileHints& hints) {
  const HintsInfo info(hints);
  MPI_File file = MPI_FILE_NULL;
  // EXCL: the call fails if a file or link with this name exists.
  constexpr int mode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR;
  const int code = blocking("MPI_File_open", MPI_File_open, MPI_COMM_SELF, path.c_str(), mode, info.handle(), &file);
  if (code != MPI_SUCCESS) {
    core::fail(core::ErrorKind::failure, "{}: cannot be made: MPI_File_open: {}", path, mpi_error(code));
  }
  call_mpi("MPI_File_close", MPI_File_close, &file);
}

}  // namespace annulus::comm
