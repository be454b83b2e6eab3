#include "annulus/io/dataset_checks.hpp"

#include <algorithm>
#include <cstdint>

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;
using core::Interval;

}  // namespace

FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes,
                     const std::string& asked_by) {
  const DatasetId dataset = open_dataset(file, path, name, asked_by);
  FoundDataset found{fmt::format("{}: dataset {}", path, name), {}};
  for (const hsize_t extent : extents_of(dataset)) found.extents.push_back(Index(extent));
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", found.where));
  const auto known = dtype_of(type);
  if (!known) {
    fail(ErrorKind::failure, "{} is {}, expected float64, float32, float16 or bfloat16", found.where,
         describe_type(type));
  }
  found.type = *known;
  const auto wanted = std::size_t(std::count(axes.begin(), axes.end(), ',') + 1);
  if (found.extents.size() != wanted) {
    fail(ErrorKind::failure, "{} has {} axes {}, expected {}: {}", found.where, found.extents.size(),
         found.shape_text(), wanted, axes);
  }
  if (std::count(found.extents.begin(), found.extents.end(), 0) > 0) {
    fail(ErrorKind::failure, "{} is empty: {}, expected {}", found.where, found.shape_text(), axes);
  }
  return found;
}

void check_type(const FoundDataset& found, core::DType type, const std::string& as_where) {
  if (found.type == type) return;
  fail(ErrorKind::failure, "{} is {}, expected {} as {}", found.where, core::name_of(found.type), core::name_of(type),
       as_where);
}

void check_extents(const FoundDataset& found, const std::vector<Index>& extents, const std::string& to_fit) {
  if (found.extents == extents) return;
  fail(ErrorKind::failure, "{} has shape {}, expected ({}) to fit {}", found.where, found.shape_text(),
       fmt::join(extents, ", "), to_fit);
}

DatasetId open_as_seen(hid_t file, const SeenFile& seen, const std::string& name) {
  const DatasetInfo& info = seen.at(name);
  DatasetId dataset = open_dataset(file, seen.path, name);
  std::vector<Index> extents;
  for (const hsize_t extent : extents_of(dataset)) extents.push_back(Index(extent));
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{}: dataset {} has no type", seen.path, name));
  if (extents != info.extents || dtype_of(type) != info.type) {
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), it was {} ({}) when the run looked at it first", seen.path,
         name, describe_type(type), fmt::join(extents, ", "), core::name_of(info.type), fmt::join(info.extents, ", "));
  }
  return dataset;
}

void read_checked_rows(const SeenFile& file, const std::vector<RowsIn>& tensors, const std::vector<Interval>& rows,
                       const comm::Communicator& comm, Index piece_bytes) {
  transfer_rows(file, Direction::read, tensors, rows, comm, piece_bytes);
  for (const RowsIn& tensor : tensors) {
    const DatasetInfo& info = file.at(tensor.dataset);
    Index count = 0;
    for (const Interval& interval : rows) count += interval.size();
    for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
      count *= axis == sequence_axis(info.order) ? 1 : info.extents[axis];
    }
    check_finite(fmt::format("{}: dataset {}", file.path, tensor.dataset),
                 find_non_finite(tensor.host, info.type, count), rows, info, comm);
  }
}

pattern::Documents read_documents(hid_t file, const std::string& path, const std::optional<std::string>& name,
                                  Index sequence) {
  if (!name) return {0, sequence};
  const DatasetId dataset = open_dataset(file, path, *name);
  const std::vector<hsize_t> extents = extents_of(dataset);
  const std::string where = fmt::format("{}: dataset {}", path, *name);
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", where));
  if (H5Tget_class(type) != H5T_INTEGER || extents.size() != 1) {
    fail(ErrorKind::failure, "{} is {} with {} axes, expected int64 with 1", where, describe_type(type),
         extents.size());
  }
  pattern::Documents offsets(extents[0]);
  check_hdf5(
      comm::blocking("H5Dread", H5Dread, dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets.data()),
      "{}: reading failed", where);
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != sequence) {
    fail(ErrorKind::failure, "{} has {} offsets{}, expected 0 ... {}", where, offsets.size(),
         offsets.empty() ? "" : fmt::format(", {} ... {}", offsets.front(), offsets.back()), sequence);
  }
  const auto down = std::is_sorted_until(offsets.begin(), offsets.end());
  if (down != offsets.end()) {
    fail(ErrorKind::failure, "{}: offset {} after {} at [{}], expected ascending offsets", where, *down, *(down - 1),
         down - offsets.begin());
  }
  return offsets;
}

}  // namespace annulus::io
