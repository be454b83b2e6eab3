#include "annulus/store/hdf5/dataset_checks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "annulus/comm/root.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;
using core::Interval;

/// Throws Error(failure) if one of the numbers means "missing".
template <class Number>
void refuse_missing(hid_t dataset, const std::string& where, const std::vector<Number>& numbers) {
  for (const MissingValue& missing : missing_values_of(dataset, where)) {
    const auto is_missing = [&](Number number) { return double(number) == missing.value; };  // NaN equals no number
    const auto found = std::find_if(numbers.begin(), numbers.end(), is_missing);
    if (found == numbers.end()) continue;
    fail(ErrorKind::failure, "{} holds {} as its number {}, {}", where, *found, found - numbers.begin(),
         NonFinite{0, 0, missing.attribute}.expected());
  }
}

/// Number of elements of a dataset that every rank holds completely. Throws Error(failure) if they need too much
/// memory, because a damaged file can claim more numbers than it contains.
std::size_t count_on_every_rank(const std::string& where, const std::vector<Index>& extents) {
  constexpr Index most = Index(1) << 28;  // 2 GiB
  const Index count = std::accumulate(extents.begin(), extents.end(), Index(1), std::multiplies<Index>());
  if (count > most) {
    fail(ErrorKind::failure, "{} has {} numbers, expected at most {}: every rank keeps all of them", where, count,
         most);
  }
  return std::size_t(count);
}

/// Reads all numbers of a dataset, also those that mean "missing". Every rank will keep all of them. `type` is HDF5's
/// type for a Number in memory.
template <class Number>
std::vector<Number> read_any(hid_t dataset, const std::string& where, const std::vector<Index>& extents, hid_t type) {
  refuse_packed(dataset, where);
  if (std::count(extents.begin(), extents.end(), 0) == 0) refuse_unwritten(dataset, where);
  std::vector<Number> numbers(count_on_every_rank(where, extents));
  if (!numbers.empty()) check_filters(dataset, where);
  check_hdf5(comm::blocking("H5Dread", H5Dread, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                            static_cast<void*>(numbers.data())),
             "{}: reading failed", where);
  return numbers;
}

/// The same, but throws Error(failure) if a number means "missing".
template <class Number>
std::vector<Number> read_all(hid_t dataset, const std::string& where, const std::vector<Index>& extents, hid_t type) {
  std::vector<Number> numbers = read_any<Number>(dataset, where, extents, type);
  refuse_missing(dataset, where, numbers);
  return numbers;
}

struct WholeNumbers {
  std::string where;  ///< "FILE: dataset /documents"
  std::vector<Index> extents;
  std::vector<Index> values;
};
/// Reads a dataset of integers with 1 to `most_axes` axes. Throws Error(failure): "..., expected int64 with AXES".
WholeNumbers read_whole_numbers(hid_t file, const std::string& path, const std::string& name, std::size_t most_axes,
                                const std::string& axes) {
  const DatasetId dataset = open_dataset(file, path, name);
  const std::string where = fmt::format("{}: dataset {}", path, name);
  WholeNumbers found{where, extents_of(dataset, where), {}};
  const TypeId type(check_hdf5(H5Dget_type(dataset), "{} has no type", found.where));
  if (H5Tget_class(type) != H5T_INTEGER || found.extents.empty() || found.extents.size() > most_axes) {
    fail(ErrorKind::failure, "{} is {} with {} axes, expected int64 with {}", found.where, describe_type(type),
         found.extents.size(), axes);
  }
  found.values = read_all<Index>(dataset, found.where, found.extents, H5T_NATIVE_INT64);
  return found;
}

/// Reads document offsets 0 = d0 <= d1 <= ... <= sequence. Returns first row, end, first row, end ...
std::vector<Index> read_documents(hid_t file, const std::string& path, const std::string& name, Index sequence) {
  const auto [where, extents, offsets] = read_whole_numbers(file, path, name, 1, "1");
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() > sequence) {
    fail(ErrorKind::failure, "{} has {} offsets{}, expected 2 or more, from 0 to at most {}", where, offsets.size(),
         offsets.empty() ? "" : fmt::format(", {} ... {}", offsets.front(), offsets.back()), sequence);
  }
  const auto down = std::is_sorted_until(offsets.begin(), offsets.end());
  if (down != offsets.end()) {
    fail(ErrorKind::failure, "{}: offset {} after {} at [{}], expected ascending offsets", where, *down, *(down - 1),
         down - offsets.begin());
  }
  std::vector<Index> ranges;
  for (std::size_t i = 1; i < offsets.size(); ++i) ranges.insert(ranges.end(), {offsets[i - 1], offsets[i]});
  return ranges;
}

/// Reads which rows of each batch entry exist. Returns first row, end, first row, end ..., where row r of entry b is
/// row b S + r.
std::vector<Index> read_lengths(hid_t file, const std::string& path, const std::string& name, Index batch,
                                Index sequence) {
  const auto [where, extents, numbers] = read_whole_numbers(file, path, name, 2, "1 or 2: (batch) or (batch, 2)");
  const bool has_begins = extents.size() == 2;
  if (extents[0] != batch || (has_begins && extents[1] != 2)) {
    fail(ErrorKind::failure, "{} has shape ({}), expected ({}) or ({}, 2) to fit {} batch entries", where,
         fmt::join(extents, ", "), batch, batch, batch);
  }
  std::vector<Index> ranges;
  for (Index b = 0; b < batch; ++b) {
    const Index begin = has_begins ? numbers[std::size_t(2 * b)] : 0;
    const Index end = numbers[std::size_t(has_begins ? 2 * b + 1 : b)];
    if (begin < 0 || end < begin || end > sequence) {
      fail(ErrorKind::failure, "{}: batch entry {} has rows [{}, {}), expected 0 <= begin <= end <= {}", where, b,
           begin, end, sequence);
    }
    ranges.insert(ranges.end(), {b * sequence + begin, b * sequence + end});
  }
  return ranges;
}

/// Returns which rows exist: first row, end, first row, end ..., a pair for each entry (input.lengths) or document. If
/// `input` names neither lengths nor documents, returns {0, S}.
std::vector<Index> read_ranges(hid_t file, const std::string& path, const runfile::InputSettings& input,
                               const core::Shape& shape) {
  if (input.lengths) return read_lengths(file, path, *input.lengths, shape.batch, shape.sequence);
  if (input.documents) return read_documents(file, path, *input.documents, shape.sequence);
  return {0, shape.sequence};
}

/// Returns `coordinates` (rows, 2) with 0 in place of NaN and infinity in rows that exist in no batch entry. `ranges`
/// says which rows exist, see read_ranges(). Throws Error(failure) for NaN or infinity in other rows; `where` names
/// file and dataset.
std::vector<double> finite_coordinates(const std::string& where, std::vector<double> coordinates,
                                       const std::vector<Index>& ranges) {
  const Index rows = Index(coordinates.size()) / 2;
  std::vector<bool> exists(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; rows > 0 && i < ranges.size(); i += 2) {
    if (ranges[i] < ranges[i + 1]) std::fill_n(exists.begin() + ranges[i] % rows, ranges[i + 1] - ranges[i], true);
  }
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    if (std::isfinite(coordinates[i])) continue;
    if (exists[i / 2]) {
      fail(ErrorKind::failure,
           "{} holds {} at [{}, {}], expected finite numbers, and none that its attributes call missing", where,
           coordinates[i], i / 2, i % 2);
    }
    coordinates[i] = 0;
  }
  return coordinates;
}

/// Reads all numbers of a dataset that look_at() has checked.
std::vector<double> read_doubles(hid_t file, const std::string& path, const std::string& name,
                                 const FoundDataset& found) {
  return read_all<double>(open_dataset(file, path, name), found.where, found.extents, H5T_NATIVE_DOUBLE);
}

/// Checks that sizes are within the limits of a run file. With larger sizes, byte counts would not fit into 64 bits.
void check_sizes(const std::string& path, const core::Shape& shape, Index query_rows) {
  constexpr Index most_rows = 1'000'000'000'000, most_others = 1'000'000;
  const Index rows = std::max(shape.sequence, query_rows);
  if (rows <= most_rows && shape.batch <= most_others && shape.heads <= most_others) return;
  fail(ErrorKind::failure, "{}: {} batch entries of {} rows, {} heads; expected at most {}, {} and {}", path,
       shape.batch, rows, shape.heads, most_others, most_rows, most_others);
}

}  // namespace

FoundDataset look_at(hid_t file, const std::string& path, const std::string& name, const std::string& axes,
                     const std::string& asked_by) {
  const DatasetId dataset = open_dataset(file, path, name, asked_by);
  FoundDataset found{fmt::format("{}: dataset {}", path, name), {}};
  found.extents = extents_of(dataset, found.where);
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
  const DatasetId dataset = open_dataset(file, path, name);
  std::vector<double> numbers = read_any<double>(dataset, found.where, found.extents, H5T_NATIVE_DOUBLE);
  // Missing values become NaN, so finite_coordinates() refuses them, too, unless their rows do not exist.
  for (const MissingValue& one : missing_values_of(dataset, found.where))
    std::replace(numbers.begin(), numbers.end(), one.value, std::numeric_limits<double>::quiet_NaN());
  return numbers;
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

FileContents agreed_contents(InspectedFile& file, const runfile::InputSettings& input, const comm::Communicator& comm,
                             const std::function<FileContents(hid_t)>& look) {
  const std::vector<Index> seen = comm::numbers_from_root(comm, [&] {
    const FileId open = open_alone(file.path, false);
    const auto [s, type, order, width, query_rows, none, no_ranges, sink, coordinates] = look(open);
    check_sizes(file.path, s, query_rows);
    std::vector<Index> numbers{s.batch,     s.sequence,   s.heads, s.kv_heads,         s.head_dim,
                               Index(type), Index(order), width,   Index(sink.size()), Index(coordinates.size()),
                               query_rows,  s.value_dim};
    const std::vector<Index> ranges = read_ranges(open, file.path, input, s);
    const std::string where = fmt::format("{}: dataset {}", file.path, input.coordinates.value_or(""));
    for (const std::vector<double>& some : {sink, finite_coordinates(where, coordinates, ranges)})
      for (const double number : some) numbers.push_back(std::bit_cast<Index>(number));
    numbers.insert(numbers.end(), ranges.begin(), ranges.end());
    return numbers;
  });
  const auto sink = seen.begin() + 12, coordinates = sink + seen[8], ranges = coordinates + seen[9];
  const auto append = [](auto begin, auto end, std::vector<double>& to) {
    std::transform(begin, end, std::back_inserter(to), [](Index bits) { return std::bit_cast<double>(bits); });
  };
  const core::Shape shape{seen[0], seen[1], seen[2], seen[3], seen[4], seen[11]};
  FileContents contents{shape, core::DType(seen[5]), core::AxisOrder(seen[6]), seen[7], seen[10], {}};
  append(sink, coordinates, contents.sink);
  file.is_left_out_by_entry = input.has_lengths_of_keys();
  file.is_end_to_end = input.lengths && !file.is_left_out_by_entry;
  const Index sequence = contents.shape.sequence, rows = (input.lengths ? contents.shape.batch : 1) * sequence;
  for (Index b = 0; b < (file.is_end_to_end ? contents.shape.batch : 1); ++b)
    append(coordinates, ranges, contents.coordinates);
  std::vector<Interval> documents;
  for (auto one = ranges; one != seen.end(); one += 2) documents.push_back({one[0], one[1]});
  contents.documents = pattern::documents_at(documents, rows);
  file.left_out = pattern::in_gaps(contents.documents, {0, rows});
  if (!file.is_left_out_by_entry) return contents;
  contents.documents = {0, sequence};
  for (const Interval& one : documents) {
    const Index begin = Index(contents.key_ranges.size()) * sequence;
    contents.key_ranges.push_back({one.begin - begin, one.end - begin});
  }
  return contents;
}

}  // namespace annulus::store
