// Files that MPI keeps beside one that is open for writing.
#pragma once

#include <array>
#include <string>

namespace annulus::io {

/// Open MPI's shared file pointers, which nothing here uses, are files NAME.data.RANK and NAME.metadata.RANK from the
/// opening to the closing of a file. While this object lives they are noted as unfinished, so that a process that is
/// ended from outside leaves none.
class SideFiles {
 public:
  SideFiles(const std::string& file, int rank);
  ~SideFiles();
  SideFiles(const SideFiles&) = delete;
  SideFiles& operator=(const SideFiles&) = delete;

 private:
  std::array<int, 2> noted_;  // numbers in core's table
};

/// `end`, what follows a temporary file's name, is that of a side file: ".data.0", ".metadata.12".
bool is_side_file(const std::string& end);

}  // namespace annulus::io
