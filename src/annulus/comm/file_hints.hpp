// Hints for MPI-IO about a file: how to stripe it, and which ranks write it. MPI libraries ignore unknown hints.
#pragma once

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

namespace annulus::comm {

/// Pairs of a name and a value, such as {"striping_factor", "8"}.
using FileHints = std::vector<std::pair<std::string, std::string>>;

/// Return how many characters this MPI allows in a hint's name and in its value.
int longest_hint_name();
int longest_hint_value();

/// Holds the hints in MPI's form; MPI_INFO_NULL if there are none.
class HintsInfo {
 public:
  explicit HintsInfo(const FileHints& hints);
  ~HintsInfo();
  HintsInfo(const HintsInfo&) = delete;
  HintsInfo& operator=(const HintsInfo&) = delete;

  MPI_Info handle() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

/// Creates an empty file through MPI with these hints, because a file's striping is fixed when the file is created. The
/// file must not exist, and links are never followed. Not collective. Throws Error(failure).
void make_file(const std::string& path, const FileHints& hints);

}  // namespace annulus::comm
