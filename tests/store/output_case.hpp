// Which rows of output files the ranks have, and the names of the files in a folder.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "annulus/store/output_file.hpp"

namespace annulus::store {

/// Rows of this rank, if the ranks get blocks of `block` rows in turn (block-cyclic).
inline std::vector<core::Interval> dealt(Index rows, Index block, const comm::Communicator& comm) {
  const pattern::Partition all = pattern::block_cyclic_partition(rows, comm.size(), block);
  return all[std::size_t(comm.rank())].intervals();
}
/// The rows of all ranks in the same partition.
inline RowOwners owners(Index rows, Index block, const comm::Communicator& comm) {
  return RowOwners(pattern::block_cyclic_partition(rows, comm.size(), block));
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace annulus::store
