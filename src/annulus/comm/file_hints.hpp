// Hints for MPI-IO about a file: how to stripe it, who writes it. Hints that an MPI library does not know it ignores.
#pragma once

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

namespace annulus::comm {

/// Names and values: {"striping_factor", "8"}.
using FileHints = std::vector<std::pair<std::string, std::string>>;

/// Letters that this MPI takes of a hint's name, and of its value.
int longest_hint_name();
int longest_hint_value();

/// The hints as MPI takes them; MPI_INFO_NULL of none.
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

/// Makes an empty file that is not there yet, never through a link, by MPI: a file is striped when it is made. On this
/// rank alone. Throws Error(failure).
void make_file(const std::string& path, const FileHints& hints);

}  // namespace annulus::comm
