// The state of a tensor file when it was first checked. A run opens the file again for each group of datasets, perhaps
// hours later. Another program may have changed the file by then, so the run compares it with this state each time.
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

/// The file that a path leads to, and its state from stat(2). The time of the last status change (ctime) is left out,
/// because links and permissions may change while the file is read, and every write changes `modified`, too.
struct FileState {
  Index device = 0;
  Index inode = 0;
  Index bytes = 0;
  Index modified = 0;  ///< time of the last write, ns since 1970
  bool operator==(const FileState&) const = default;
};

/// Looks up the state on this rank alone. Throws Error(failure) if there is no such file, if this process may not read
/// it, or if it is not a regular file (but a folder or a pipe).
FileState state_of(const std::string& path);

/// Each rank looks up the file, which must have the size and time that rank 0 sees. Device and inode may differ between
/// hosts, because each host mounts the file system itself, or has a copy of the file. Collective. Throws the same
/// Error(failure) on every rank.
FileState agreed_state(const std::string& path, const comm::Communicator& comm);

/// Throws Error(failure) if the file has changed. The message says what has changed. Not collective.
void check_unchanged(const std::string& path, const FileState& seen);

/// Describes a dataset: its extents, storage type, order of axes, and the position of its numbers.
struct DatasetInfo {
  /// Special values of `offset`.
  static constexpr Index not_known = -2;  ///< not looked up yet
  static constexpr Index by_hdf5 = -1;    ///< only HDF5 can read the numbers (see Hdf5Tensor in file_rows.hpp)

  std::vector<Index> extents;  ///< in the file's order of axes
  NumberType type = core::DType::float32;
  core::AxisOrder order = core::AxisOrder::bshd;
  Index offset = not_known;   ///< byte of the file at which the numbers begin; from there they are contiguous
  MissingValues missing{};    ///< reading one of these numbers is an error
  Index first_row = 0;        ///< row of the sequence that is row 0 of the dataset; may be above 0 for q, dout, dlse
  bool has_all_rows = false;  ///< all its rows exist: InspectedFile::left_out does not apply to the dataset
};

struct InspectedFile {
  std::string path;
  FileState state;                              ///< the file's state as this rank sees it
  std::map<std::string, DatasetInfo> datasets;  ///< the datasets that the run reads, by name
  /// Batch entries lie end to end, as one sequence: row S is row 0 of entry 1.
  bool is_end_to_end = false;
  /// Rows that do not exist, ascending. They are not read; in memory they are zeros. If entries lie end to end, rows
  /// are counted over all entries. Otherwise every entry lacks the same rows, unless is_left_out_by_entry is true.
  std::vector<core::Interval> left_out{};
  /// Entries do not lie end to end, but `left_out` counts rows over all entries: each entry lacks different rows.
  bool is_left_out_by_entry = false;
  /// Other files that hold numbers of the datasets, or that contain links on the way to these datasets.
  std::map<std::string, FileState> others{};

  /// Throws an internal error if the dataset is not in `datasets`.
  const DatasetInfo& at(const std::string& dataset) const {
    const auto found = datasets.find(dataset);
    core::require(found != datasets.end(), [&] { return path + ": dataset was never looked at: " + dataset; });
    return found->second;
  }
  /// Returns how many numbers `rows` rows of the dataset have. If entries lie end to end, `rows` counts rows of the one
  /// sequence. Otherwise every entry has `rows` rows.
  Index numbers_in(const DatasetInfo& info, Index rows) const;
  /// True if some rows of the dataset are left out. After reading, memory holds zeros for these rows.
  bool has_left_out(const DatasetInfo& info) const {
    return info.extents.size() >= 3 && !info.has_all_rows && !left_out.empty() && left_out.back().end > info.first_row;
  }
  /// The missing values that a check after reading looks for. Leaves out the value 0 if memory holds zeros for rows
  /// that do not exist, because these zeros are no errors.
  MissingValues missing_after_reading(const DatasetInfo& info) const;
};

/// Calls check_unchanged() above for a file and for all its `others`.
void check_unchanged(const InspectedFile& file);

/// Calls `read`, which opens the file, and checks before and after this call that the file is still the same. Throws
/// Error(failure) if the file has changed; this error replaces an error that `read` has thrown. Not collective.
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
