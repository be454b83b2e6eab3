#include "annulus/io/dataset_checks.hpp"

#include <algorithm>
#include <cstdint>

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

FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes) {
  const DatasetId dataset = open_dataset(file, path, name);
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

}  // namespace annulus::io
