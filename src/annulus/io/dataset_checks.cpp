#include "annulus/io/dataset_checks.hpp"

#include <algorithm>
#include <cstdint>

#include "annulus/io/transfer.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;
using core::Interval;

/// Global row of row `local` of the intervals laid one after another.
Index global_row(const std::vector<Interval>& rows, Index local) {
  for (const Interval& interval : rows) {
    if (local < interval.size()) return interval.begin + local;
    local -= interval.size();
  }
  return -1;
}

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

void check_finite(const std::string& where, const std::optional<NonFinite>& found, const std::vector<Interval>& rows,
                  const std::vector<Index>& extents, const comm::Communicator& comm) {
  constexpr Index none = INT64_MAX;
  Index place = none;  // in the global dataset
  std::string message;
  if (found) {
    Index local_rows = 0, row_numbers = 1;
    for (const Interval& interval : rows) local_rows += interval.size();
    for (std::size_t axis = 2; axis < extents.size(); ++axis) row_numbers *= extents[axis];
    const Index row = found->index / row_numbers;  // over the local (B, rows)
    Index inside = found->index % row_numbers;
    std::vector<Index> at(extents.size());
    at[0] = row / local_rows;
    at[1] = global_row(rows, row % local_rows);
    place = (at[0] * extents[1] + at[1]) * row_numbers + inside;
    for (std::size_t axis = extents.size() - 1; axis >= 2; --axis) {
      at[axis] = inside % extents[axis];
      inside /= extents[axis];
    }
    message = fmt::format("{} holds {} at [{}], expected finite numbers", where, found->value, fmt::join(at, ", "));
  }
  const Index first = -comm.max(-place);
  if (first == none) return;
  for (const std::string& text : comm.gather_all(place == first ? message : std::string())) {
    if (!text.empty()) throw comm::AgreedError(ErrorKind::failure, text);
  }
}

void read_checked_rows(const std::string& path, const std::map<std::string, DatasetInfo>& known,
                       const std::vector<RowsIn>& tensors, const std::vector<Interval>& rows,
                       const comm::Communicator& comm, Index piece_bytes) {
  for (const RowsIn& tensor : tensors) {
    core::require(known.contains(tensor.dataset), [&] { return tensor.dataset + " is none of the input's tensors"; });
  }
  transfer_rows(path, Direction::read, tensors, rows, comm, piece_bytes);
  for (const RowsIn& tensor : tensors) {
    const DatasetInfo& info = known.at(tensor.dataset);
    Index count = 0;
    for (const Interval& interval : rows) count += interval.size();
    for (std::size_t axis = 0; axis < info.extents.size(); ++axis) count *= axis == 1 ? 1 : info.extents[axis];
    check_finite(fmt::format("{}: dataset {}", path, tensor.dataset), find_non_finite(tensor.host, info.type, count),
                 rows, info.extents, comm);
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
