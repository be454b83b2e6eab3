// A file of tensors as it was when it was looked at first. Every later opening is held against that: files are opened
// anew for each group of datasets, hours apart, and another program may have replaced them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/axes.hpp"
#include "annulus/core/types.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

using core::Index;

/// Which file a path leads to, and in which state, as stat(2) has it. The time of the last status change is not among
/// it: a file may be linked or given other rights while it is read, and whoever writes to it changes the time of the
/// last write.
struct FileState {
  Index device = 0;
  Index inode = 0;
  Index bytes = 0;
  Index modified = 0;  ///< ns since 1970
  bool operator==(const FileState&) const = default;
};

/// Looked up on this rank alone. Throws Error(failure) where there is no such file, it cannot be read or is none (a
/// folder, a pipe).
FileState state_of(const std::string& path);

/// Every rank's own look at the file, which must have the size and time that rank 0 finds; collective. Device and inode
/// may differ between hosts: of a file system that each mounts, or of copies. Throws the same Error(failure) on every
/// rank.
FileState agreed_state(const std::string& path, const comm::Communicator& comm);

/// Throws Error(failure) that says what changed unless the file is still what it was. On this rank alone.
void check_unchanged(const std::string& path, const FileState& seen);

/// Extents and storage type of a dataset, what the axes of a tensor are, and where its numbers lie.
struct DatasetInfo {
  /// Values of `offset` that are no byte of the file.
  static constexpr Index not_known = -2;  ///< the file has not been looked at yet
  static constexpr Index by_hdf5 = -1;    ///< only HDF5 can read it: chunked, compressed, in another byte order or file

  std::vector<Index> extents;  ///< as in the file
  NumberType type = core::DType::float32;
  core::AxisOrder order = core::AxisOrder::bshd;
  Index offset = not_known;  ///< byte of the file at which the numbers begin that lie there one after another
  MissingValues missing{};   ///< numbers that must not be read
  Index first_row = 0;       ///< row of the sequence of its first row: q may have fewer rows than k
};

struct InspectedFile {
  std::string path;
  FileState state;                              ///< as this rank finds it
  std::map<std::string, DatasetInfo> datasets;  ///< those that are read, by their names
  /// Batch entries lie end to end: rows of the file are those of one sequence, in which row S is row 0 of entry 1.
  bool is_end_to_end = false;
  /// Rows that do not exist, ascending; of that sequence, or of each batch entry. They are not read; zeros stand in
  /// memory.
  std::vector<core::Interval> left_out{};
  /// Files beside `path` that hold numbers of its datasets, or through which links lead to them.
  std::map<std::string, FileState> others{};

  /// An internal error for a dataset that is not among them.
  const DatasetInfo& at(const std::string& dataset) const {
    const auto found = datasets.find(dataset);
    core::require(found != datasets.end(), [&] { return path + ": dataset was never looked at: " + dataset; });
    return found->second;
  }
};

/// The same for a file and all others that its datasets are made of.
void check_unchanged(const InspectedFile& file);

/// Runs `read`, which opens the file, and makes sure that it was the file seen before, from before the opening to after
/// the last read. Throws Error(failure) when it changed, also where a change made `read` fail. On this rank alone.
template <class Read>
void while_unchanged(const InspectedFile& file, Read&& read) {
  check_unchanged(file);
  try {
    read();
  } catch (const core::Error&) {
    check_unchanged(file);
    throw;
  }
  check_unchanged(file);
}

}  // namespace annulus::store
