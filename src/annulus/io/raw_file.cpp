#include "annulus/io/raw_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "annulus/core/metrics.hpp"
#include "annulus/io/collective.hpp"
#include "annulus/io/conversion.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/location.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

constexpr Index window_bytes = Index(4) << 20;  // what is read at once of scattered rows
constexpr Index gap_bytes = Index(8) << 10;     // two pages: less costs more as a call of its own
constexpr Index call_bytes = Index(64) << 20;   // of a long run: a second on a slow disk

/// Throws at the end of the file, too.
void read_all(const RawTensor& tensor, std::byte* to, Index count, Index offset) {
  while (count > 0) {
    const ssize_t now = pread(tensor.file->id(), to, std::size_t(std::min(count, call_bytes)), off_t(offset));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      fail(ErrorKind::failure, "{}: reading {} bytes from byte {} on failed: {}", tensor.layout.where, count, offset,
           now < 0 ? std::strerror(errno) : "the file ends there");
    }
    to += now;
    count -= now;
    offset += now;
  }
}

void write_out(const RawTensor& tensor, const std::byte* from, Index count, Index offset) {
  for (Index done = 0; done < count; done += call_bytes) {
    const Index now = std::min(call_bytes, count - done);
    const int code =
        write_all(*tensor.file, reinterpret_cast<const char*>(from) + done, std::size_t(now), offset + done);
    if (code == 0) continue;
    fail(ErrorKind::failure, "{}: writing {} bytes at byte {} failed: {}", tensor.layout.where, now, offset + done,
         std::strerror(code));
  }
}

/// Lies in the file as in memory, in one long run.
bool is_whole(const RowLayout& layout, const RowRuns& runs) { return runs.count == 1 && layout.type == layout.memory; }

void check_run(const RowLayout& layout, const OneRun& run) {
  const auto found = find_non_finite(run.memory(), layout.memory, run.runs->numbers);
  if (!found) return;
  fail(ErrorKind::failure, "{} holds {} at {}, expected finite numbers", layout.where, found->value,
       place_of(layout, run, found->index));
}

/// Numbers of runs whose memory has no gaps are looked at together.
void check_runs(const RowLayout& layout, const RowRuns& runs) {
  if (runs.memory_step == runs.numbers * Index(core::bytes_of(layout.memory)) &&
      !find_non_finite(runs.memory, layout.memory, runs.numbers * runs.count)) {
    return;
  }
  for (Index i = 0; i < runs.count; ++i) check_run(layout, {&runs, i});
}

void split(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, std::vector<RowRuns>& whole,
           std::vector<RowRuns>& scattered) {
  for (const core::RowPiece& piece : pieces) {
    for (const RowRuns& runs : runs_of(tensor.layout, piece)) {
      (is_whole(tensor.layout, runs) ? whole : scattered).push_back(runs);
    }
  }
}

}  // namespace

std::optional<RawTensor> raw_tensor(const SeenFile& seen, const std::string& dataset) {
  const DatasetInfo& info = seen.at(dataset);
  RawTensor tensor;
  std::vector<Index> extents = reordered(info.extents, info.order);
  if (extents.size() == 3) extents.push_back(1);
  if (extents.size() != 4 || !info.type.dtype()) return std::nullopt;
  tensor.layout = {fmt::format("{}: dataset {}", seen.path, dataset),
                   0,
                   extents,
                   info.order,
                   *info.type.dtype(),
                   *info.type.dtype()};
  bool raw = false;
  while_unchanged(seen, [&] {
    const FileId file = open_alone(seen.path, false);
    const DatasetId open = open_dataset(file, seen.path, dataset);
    const PropertyId creation(
        check_hdf5(comm::blocking("H5Dget_create_plist", H5Dget_create_plist, hid_t(open)), "{}", tensor.layout.where));
    const TypeId stored(check_hdf5(H5Dget_type(open), "{}", tensor.layout.where));
    const haddr_t offset = comm::blocking("H5Dget_offset", H5Dget_offset, hid_t(open));
    raw = H5Pget_layout(creation) == H5D_CONTIGUOUS && H5Pget_external_count(creation) == 0 &&
          H5Tequal(stored, file_type(info.type)) > 0 && offset != HADDR_UNDEF;
    tensor.layout.offset = Index(offset);
    tensor.file = std::make_shared<const Descriptor>(seen.path, O_RDONLY);
  });
  if (!raw) return std::nullopt;
  return tensor;
}

void read_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic) {
  const double start = core::wall_seconds();
  const RowLayout& layout = tensor.layout;
  std::vector<RowRuns> whole, scattered;
  split(tensor, pieces, whole, scattered);
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
  for (const std::vector<RowRuns>* all : {&whole, &scattered}) {
    for (const RowRuns& runs : *all) {
      if (layout.is_finite) check_runs(layout, runs);
    }
  }
  traffic.seconds += core::wall_seconds() - start;
}

void write_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic) {
  const double start = core::wall_seconds();
  const RowLayout& layout = tensor.layout;
  std::vector<RowRuns> whole, scattered;
  split(tensor, pieces, whole, scattered);
  Index moved = 0;
  for (const RowRuns& runs : whole) {
    write_out(tensor, runs.memory, runs.numbers * layout.number_bytes(), runs.file);
    moved += runs.numbers * layout.number_bytes();
  }
  // Runs that follow one another in the file go out together; what lies between others may be another rank's.
  std::vector<std::byte> bounce;
  Index begin = 0;
  const auto send = [&] {
    if (!bounce.empty()) write_out(tensor, bounce.data(), Index(bounce.size()), begin);
    moved += Index(bounce.size());
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
           place_of(layout, run, found->index), core::name_of(layout.type));
    }
  }
  send();
  traffic.asked += moved;
  traffic.moved += moved;
  traffic.seconds += core::wall_seconds() - start;
}

}  // namespace annulus::io
