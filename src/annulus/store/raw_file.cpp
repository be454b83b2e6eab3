#include "annulus/store/raw_file.hpp"

#include <cerrno>
#include <cstring>

#include "annulus/comm/activity.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

constexpr Index window_bytes = Index(4) << 20;  // if rows are scattered, one call reads or writes about this much
constexpr Index gap_bytes = Index(8) << 10;     // two pages; reading a smaller gap costs less than another call
constexpr Index call_bytes = Index(64) << 20;   // one call writes at most this much, in a second on a slow disk

/// Reads `count` bytes at byte `offset` of the file. Throws Error(failure), also if the file ends too early.
void read_all(const RawTensor& tensor, std::byte* to, Index count, Index offset) {
  const Index done = read_bytes(*tensor.file, to, count, offset);
  if (done == count) return;
  fail(ErrorKind::failure, "{}: reading {} bytes from byte {} on failed: {}", tensor.layout.where,
       count - std::max<Index>(done, 0), offset + std::max<Index>(done, 0),
       done < 0 ? std::strerror(errno) : "the file ends there");
}

/// Throws Error(failure) if the layout does not allow a number. Runs without gaps in memory are first checked all at
/// once. If there are gaps, or a number is bad, each run is checked alone, to find the index of the bad number.
void check_runs(const RowLayout& layout, const RowRuns& runs) {
  if (runs.memory_step == runs.numbers * Index(core::bytes_of(layout.memory)) &&
      !find_unwanted(layout, runs.memory, runs.numbers * runs.count)) {
    return;
  }
  for (Index i = 0; i < runs.count; ++i) {
    const OneRun run{&runs, i};
    const auto found = find_unwanted(layout, run.memory(), runs.numbers);
    if (!found) continue;
    fail(ErrorKind::failure, "{} holds {} at {}, {}", layout.where, found->value, index_text(layout, run, found->index),
         found->expected());
  }
}

/// Puts runs whose bytes are contiguous and equal in the file and in memory into `whole`, and all others into
/// `scattered`.
void split(const RowLayout& layout, const std::vector<core::RowPiece>& pieces, std::vector<RowRuns>& whole,
           std::vector<RowRuns>& scattered) {
  for (const core::RowPiece& piece : pieces) {
    for (const RowRuns& runs : runs_of(layout, piece)) {
      (runs.count == 1 && layout.type == layout.memory ? whole : scattered).push_back(runs);
    }
  }
}

/// Asks HDF5 where the dataset's numbers begin.
Index found_offset(const InspectedFile& seen, const std::string& dataset) {
  Index offset = DatasetInfo::by_hdf5;
  while_unchanged(seen, [&] {
    const FileId file = open_alone(seen.path, false);
    const DatasetId open = open_dataset(file, seen.path, dataset);
    const std::string where = fmt::format("{}: dataset {}", seen.path, dataset);
    check_as_inspected(open, where, seen.at(dataset));
    offset = offset_of(open, seen.path, where, seen.at(dataset).type);
  });
  return offset;
}

}  // namespace

RowLayout layout_of(const InspectedFile& seen, const std::string& dataset) {
  const DatasetInfo& info = seen.at(dataset);
  RowLayout layout;
  layout.where = fmt::format("{}: dataset {}", seen.path, dataset);
  layout.offset = info.offset;
  layout.axes = info.extents.size();
  core::require(layout.axes >= 1 && layout.axes <= 4, [&] { return layout.where + " has no rows"; });
  layout.order = info.order;
  layout.extents = layout.axes >= 3 ? reordered(info.extents, info.order) : info.extents;
  if (layout.axes <= 2) layout.extents.insert(layout.extents.begin(), 1);
  layout.extents.resize(4, 1);
  layout.type = layout.memory = info.type.dtype().value_or(bits_of_int64);
  layout.is_finite = info.type.dtype().has_value();
  layout.missing = info.missing;
  if (!seen.has_left_out(info)) return layout;
  layout.is_left_out_by_entry = seen.is_left_out_by_entry;
  for (const core::Interval& rows : seen.left_out) {
    if (rows.end <= info.first_row) continue;
    layout.left_out.push_back({std::max<Index>(0, rows.begin - info.first_row), rows.end - info.first_row});
  }
  return layout;
}

std::optional<RawTensor> raw_tensor(const InspectedFile& seen, const std::string& dataset) {
  RawTensor tensor{nullptr, layout_of(seen, dataset)};
  Index& offset = tensor.layout.offset;
  if (offset == DatasetInfo::not_known) offset = found_offset(seen, dataset);
  if (offset == DatasetInfo::by_hdf5) return std::nullopt;
  while_unchanged(seen, [&] { tensor.file = std::make_shared<const Descriptor>(seen.path, O_RDONLY); });
  return tensor;
}

void read_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic) {
  const double start = core::wall_seconds();
  const RowLayout& layout = tensor.layout;
  std::vector<RowRuns> whole, scattered;
  split(layout, existing(layout, pieces), whole, scattered);
  for (const RowRuns& runs : whole) {
    const Index bytes = runs.numbers * layout.number_bytes();
    read_all(tensor, runs.memory, bytes, runs.file);
    traffic.asked += bytes;
    traffic.moved += bytes;
  }
  std::vector<std::byte> bounce;
  for_each_read(scattered, layout.number_bytes(), window_bytes, gap_bytes, [&](const ReadCall& call) {
    bounce.resize(std::size_t(std::max(Index(bounce.size()), call.end - call.begin)));
    read_all(tensor, bounce.data(), call.end - call.begin, call.begin);
    traffic.moved += call.end - call.begin;
    for (const OneRun& run : call.parts) {
      convert({bounce.data() + (run.begin() - call.begin), layout.type}, {run.memory(), layout.memory},
              run.runs->numbers);
      traffic.asked += run.runs->numbers * layout.number_bytes();
    }
  });
  for (const RowRuns& runs : whole) check_runs(layout, runs);
  for (const RowRuns& runs : scattered) check_runs(layout, runs);
  traffic.seconds += core::wall_seconds() - start;
}

void for_each_stretch(const RowLayout& layout, const std::vector<core::RowPiece>& pieces, const VisitBytes& visit) {
  std::vector<RowRuns> whole, scattered;
  split(layout, pieces, whole, scattered);
  for (const RowRuns& runs : whole) visit(runs.file, runs.memory, runs.numbers * layout.number_bytes());
  // Visits consecutive runs of the file together. Never visits bytes between two runs: they may belong to another rank.
  std::vector<std::byte> bounce;
  Index begin = 0;
  const auto send = [&] {
    if (!bounce.empty()) visit(begin, bounce.data(), Index(bounce.size()));
    bounce.clear();
  };
  for (const OneRun& run : in_file_order(scattered)) {
    if (run.begin() != begin + Index(bounce.size()) || Index(bounce.size()) >= window_bytes) send();
    if (bounce.empty()) begin = run.begin();
    const std::size_t at = bounce.size();
    bounce.resize(at + std::size_t(run.runs->numbers * layout.number_bytes()));
    convert({run.memory(), layout.memory}, {bounce.data() + at, layout.type}, run.runs->numbers);
    if (layout.type == layout.memory) continue;
    if (const auto found = find_non_finite(bounce.data() + at, layout.type, run.runs->numbers)) {
      fail(ErrorKind::failure, "{}: the number for {} does not fit {}: set output.type to a wider one", layout.where,
           index_text(layout, run, found->index), core::name_of(layout.type));
    }
  }
  send();
}

void write_watched(const RawTensor& tensor, Index begin, const std::byte* bytes, Index count,
                   core::RowTraffic& traffic) {
  for (Index done = 0; done < count; done += call_bytes) {
    const Index now = std::min(call_bytes, count - done);
    {
      const comm::BlockingScope inside("the writing of " + tensor.layout.where);
      const auto* from = reinterpret_cast<const char*>(bytes) + done;
      if (const int code = write_all(*tensor.file, from, std::size_t(now), begin + done); code != 0) {
        fail(ErrorKind::failure, "{}: writing {} bytes at byte {} failed: {}", tensor.layout.where, now, begin + done,
             std::strerror(code));
      }
    }
    comm::watchdog_progress();
  }
  traffic.asked += count;
  traffic.moved += count;
}

}  // namespace annulus::store
