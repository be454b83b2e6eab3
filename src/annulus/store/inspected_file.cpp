#include "annulus/store/inspected_file.hpp"

#include <cstdint>

#include "annulus/comm/root.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

constexpr Index second = 1'000'000'000;  // ns

/// A time in UTC as text: "2026-11-03 12:00:01.123456789".
std::string time_text(Index nanoseconds) {
  const Index seconds = nanoseconds / second - (nanoseconds % second < 0 ? 1 : 0);  // rounded down before 1970, too
  return fmt::format("{}.{:09}", utc_text(std::time_t(seconds), "%Y-%m-%d %H:%M:%S"), core::wrap(nanoseconds, second));
}

/// Describes what has changed: "inode 12 -> 15, 4096 -> 8192 bytes, modified ... -> ...".
std::string changes(const FileState& before, const FileState& now) {
  std::string text;
  const auto add = [&](const std::string& change) { text += (text.empty() ? "" : ", ") + change; };
  if (before.device != now.device) add(fmt::format("device {} -> {}", before.device, now.device));
  if (before.inode != now.inode) add(fmt::format("inode {} -> {}", before.inode, now.inode));
  if (before.bytes != now.bytes) add(fmt::format("{} -> {} bytes", before.bytes, now.bytes));
  if (before.modified != now.modified) {
    add(fmt::format("modified {} -> {}", time_text(before.modified), time_text(now.modified)));
  }
  return text;
}

}  // namespace

FileState state_of(const std::string& path) {
  // Opens the file, because only opening makes a network file system ask its server.
  const struct stat status = check_openable(path, false);
  const auto modified =  // after the year 2262 it wraps around; two times still differ
      std::uint64_t(status.st_mtim.tv_sec) * std::uint64_t(second) + std::uint64_t(status.st_mtim.tv_nsec);
  return {Index(status.st_dev), Index(status.st_ino), Index(status.st_size), Index(modified)};
}

FileState agreed_state(const std::string& path, const comm::Communicator& comm) {
  const std::vector<Index> root = comm::numbers_from_root(comm, [&] {
    const FileState found = state_of(path);
    return std::vector<Index>{found.bytes, found.modified};
  });
  FileState mine;
  comm::agree(comm, [&] {
    mine = state_of(path);
    const FileState expected{mine.device, mine.inode, root.at(0), root.at(1)};
    if (mine == expected) return;
    fail(ErrorKind::failure, "{}: is another file here than on rank 0: {}; every host must see the same one", path,
         changes(expected, mine));
  });
  return mine;
}

void check_unchanged(const std::string& path, const FileState& seen) {
  FileState now = state_of(path);
  now.device = seen.device;  // a network file system may get another device number when it is mounted again
  if (now == seen) return;
  fail(ErrorKind::failure,
       "{}: changed since the run looked at it first: {}; old and new numbers would be mixed. Leave the file as it is "
       "and run again",
       path, changes(seen, now));
}

Index InspectedFile::numbers_in(const DatasetInfo& info, Index rows) const {
  for (std::size_t axis = is_end_to_end ? 1 : 0; axis < info.extents.size(); ++axis) {
    rows *= axis == sequence_axis(info.order) ? 1 : info.extents[axis];
  }
  return rows;
}

MissingValues InspectedFile::missing_after_reading(const DatasetInfo& info) const {
  MissingValues found = info.missing;
  std::erase_if(found, [&](const MissingValue& one) { return has_left_out(info) && one.value == 0; });
  return found;
}

void check_unchanged(const InspectedFile& file) {
  check_unchanged(file.path, file.state);
  for (const auto& [path, state] : file.others) check_unchanged(path, state);
}

}  // namespace annulus::store
