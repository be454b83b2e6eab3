#include "annulus/store/hdf5/dataset_checks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "annulus/comm/root.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"
#include "annulus/store/hdf5/filters.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

/// Document offsets 0 = d0 <= d1 <= ... = sequence; {0, sequence} without a dataset.
pattern::Documents read_documents(hid_t file, const std::string& path, const std::optional<std::string>& name,
                                  Index sequence) {
  if (!name) return {0, sequence};
  const DatasetId dataset = open_dataset(file, path, *name);
  const std::vector<Index> extents = extents_of(dataset);
  const std::string where = fmt::format("{}: dataset {}", path, *name);
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", where));
  if (H5Tget_class(type) != H5T_INTEGER || extents.size() != 1) {
    fail(ErrorKind::failure, "{} is {} with {} axes, expected int64 with 1", where, describe_type(type),
         extents.size());
  }
  refuse_packed(dataset, where);
  if (extents[0] > 0) check_filters(dataset, where);
  pattern::Documents offsets(extents[0], 0);
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

/// All numbers of a dataset that has been looked at.
std::vector<double> read_doubles(hid_t file, const std::string& path, const std::string& name,
                                 const FoundDataset& found) {
  const DatasetId dataset = open_dataset(file, path, name);
  Index count = 1;
  for (const Index extent : found.extents) count *= extent;
  std::vector<double> numbers(std::size_t(count), 0);
  check_hdf5(comm::blocking("H5Dread", H5Dread, hid_t(dataset), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                            static_cast<void*>(numbers.data())),
             "{}: reading failed", found.where);
  return numbers;
}

}  // namespace

FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes,
                     const std::string& asked_by) {
  const DatasetId dataset = open_dataset(file, path, name, asked_by);
  FoundDataset found{fmt::format("{}: dataset {}", path, name), extents_of(dataset)};
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
  check_filters(dataset, found.where);
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

std::vector<double> read_coordinates(hid_t file, const std::string& path, const std::string& name, Index rows,
                                     const std::string& to_fit) {
  const FoundDataset found = look_at(file, path, name, "(sequence, 2)", "input.coordinates names it");
  check_extents(found, {rows, 2}, to_fit);
  const std::vector<double> places = read_doubles(file, path, name, found);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (std::isfinite(places[i])) continue;
    fail(ErrorKind::failure, "{} holds {} at [{}, {}], expected finite numbers", found.where, places[i], i / 2, i % 2);
  }
  return places;
}

std::vector<double> read_sink(hid_t file, const std::string& path, const std::string& name, Index heads,
                              const std::string& to_fit) {
  const FoundDataset found = look_at(file, path, name, "(heads)", "input.sink names it");
  check_extents(found, {heads}, to_fit);
  const std::vector<double> logits = read_doubles(file, path, name, found);
  for (std::size_t h = 0; h < logits.size(); ++h) {
    if (std::isfinite(logits[h]) || logits[h] < 0) continue;
    fail(ErrorKind::failure, "{} holds {} at [{}], expected finite numbers, or -inf for a head without a sink",
         found.where, logits[h], h);
  }
  return logits;
}

FileContents agreed_contents(const std::string& path, const std::optional<std::string>& documents,
                             const comm::Communicator& comm, const std::function<FileContents(hid_t)>& look) {
  const std::vector<Index> seen = comm::numbers_from_root(comm, [&] {
    const FileId file = open_alone(path, false);
    const auto [s, type, order, width, none, sink, coordinates] = look(file);
    std::vector<Index> numbers{s.batch,     s.sequence,   s.heads, s.kv_heads,         s.head_dim,
                               Index(type), Index(order), width,   Index(sink.size()), Index(coordinates.size())};
    for (const std::vector<double>* const some : {&sink, &coordinates})
      for (const double number : *some) numbers.push_back(std::bit_cast<Index>(number));
    const pattern::Documents offsets = read_documents(file, path, documents, s.sequence);
    numbers.insert(numbers.end(), offsets.begin(), offsets.end());
    return numbers;
  });
  const auto sink = seen.begin() + 10, coordinates = sink + seen[8], offsets = coordinates + seen[9];
  const auto doubles = [](auto begin, auto end) {
    std::vector<double> numbers;
    std::transform(begin, end, std::back_inserter(numbers), [](Index bits) { return std::bit_cast<double>(bits); });
    return numbers;
  };
  return {{seen[0], seen[1], seen[2], seen[3], seen[4]},
          core::DType(seen[5]),
          core::AxisOrder(seen[6]),
          seen[7],
          {offsets, seen.end()},
          doubles(sink, coordinates),
          doubles(coordinates, offsets)};
}

}  // namespace annulus::store
