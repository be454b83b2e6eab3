#include "annulus/store/part_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "annulus/comm/activity.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/json_text.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;
using Json = nlohmann::ordered_json;

constexpr Index alignment = 4096;  // bytes; scratch tensors begin at multiples of it; size of a block in note_blocks()

/// Returns the byte ranges of the numbers of all datasets in the top group: of tensors, and of dimension scales (where
/// no numbers are ever written).
std::vector<core::Interval> number_ranges(hid_t file, const std::string& path) {
  std::vector<core::Interval> ranges;
  for (const std::string& name : links_in(file, path)) {
    const DatasetId dataset = open_dataset(file, path, name);
    const haddr_t offset = comm::blocking("H5Dget_offset", H5Dget_offset, hid_t(dataset));
    if (offset == HADDR_UNDEF) continue;
    ranges.push_back({Index(offset), Index(offset) + Index(comm::blocking("H5Dget_storage_size", H5Dget_storage_size,
                                                                          hid_t(dataset)))});
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return ranges;
}

std::string to_hex(const std::string& bytes) {
  std::string hex;
  for (const char one : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(one));
  return hex;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Notes the blocks of a range that contain bytes other than 0. Between datasets that start at multiples of a megabyte
/// there are large gaps of zeros, which need not be noted.
void note_blocks(const Descriptor& file, const std::string& path, core::Interval range,
                 std::vector<PartLayout::Bytes>& noted) {
  for (Index begin = range.begin; begin < range.end; begin += alignment) {
    const Index count = std::min(alignment, range.end - begin);
    std::string bytes(std::size_t(count), '\0');
    const Index done = read_bytes(file, bytes.data(), count, begin);
    if (done < count) fail(ErrorKind::failure, "{}: reading failed: {}", path, std::strerror(done < 0 ? errno : EIO));
    if (bytes.find_first_not_of('\0') != std::string::npos) noted.push_back({begin, std::move(bytes)});
  }
}

/// Finds the tensors and HDF5's own bytes in a file that HDF5 has laid out. Gives scratch tensors positions after the
/// end of this file.
PartLayout found_layout(const Descriptor& file, const std::string& path, const std::vector<PartTensor>& tensors) {
  struct stat about {};
  if (fstat(file.id(), &about) != 0) fail(ErrorKind::failure, "{}: {}", path, std::strerror(errno));
  PartLayout layout{Index(about.st_ino), Index(about.st_size), {}, {}};
  const FileId open = open_alone(path, false);
  Index end = 0, next = core::ceil_div(layout.bytes, alignment) * alignment;
  for (const PartTensor& tensor : tensors) {
    if (tensor.is_scratch) {
      layout.offsets[tensor.spec.name] = next;
      next += core::ceil_div(bytes_of(tensor.spec), alignment) * alignment;
    } else {
      const DatasetId dataset = open_dataset(open, path, tensor.spec.name);
      layout.offsets[tensor.spec.name] = Index(comm::blocking("H5Dget_offset", H5Dget_offset, hid_t(dataset)));
    }
  }
  std::vector<core::Interval> numbers = number_ranges(open, path);
  numbers.push_back({layout.bytes, layout.bytes});
  for (const core::Interval& range : numbers) {
    note_blocks(file, path, {end, std::max(end, range.begin)}, layout.bookkeeping);
    end = std::max(end, range.end);
  }
  return layout;
}

/// Makes an empty new file, and does not follow a link. If there are hints, MPI makes the file with them, because a
/// file system decides on the stripes of a file when the file is made.
Descriptor new_file(const std::string& path, const comm::FileHints& hints) {
  if (hints.empty()) return Descriptor(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (path.find(':') != std::string::npos) {
    fail(ErrorKind::failure,
         "{}: output.hints cannot be used with a path that has a colon in it: MPI-IO would take the part before it "
         "for the name of a file system; leave output.hints out, or choose another path",
         path);
  }
  comm::make_file(path, hints);
  Descriptor made(path, O_RDWR | O_NOFOLLOW);
  struct stat about {};
  if (fstat(made.id(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_size != 0 || about.st_nlink != 1) {
    fail(ErrorKind::failure, "{}: is not the empty file that MPI made under this name; it is left as it is", path);
  }
  return made;
}

}  // namespace

std::string PartLayout::text() const {
  Json all{{"inode", inode}, {"bytes", bytes}, {"offsets", offsets}, {"bookkeeping", Json::array()}};
  for (const Bytes& one : bookkeeping) all["bookkeeping"].push_back({{"begin", one.begin}, {"hex", to_hex(one.bytes)}});
  return all.dump();
}

PartLayout PartLayout::parse(const std::string& text, const std::string& journal) {
  try {
    const Json all = parse_json(text);
    whole_numbers(all);
    PartLayout layout{all.at("inode"), all.at("bytes"), all.at("offsets"), {}};
    for (const Json& one : all.at("bookkeeping")) {
      layout.bookkeeping.push_back({one.at("begin"), from_hex(one.at("hex").get<std::string>())});
    }
    return layout;
  } catch (const std::exception& error) {
    fail(ErrorKind::failure,
         "{}: the layout of the .part file in it is damaged ({}): {}; begin anew with annulus run --restart", journal,
         error.what(), text.substr(0, 60));
  }
}

PartLayout PartFile::lay_out(const std::string& path, const OutputTarget& result,
                             const std::vector<PartTensor>& tensors, std::optional<UnfinishedFile>& guard) {
  const comm::BlockingScope inside("the making of " + path);
  const Alignment aligned(result.alignment);
  std::vector<TensorSpec> specs;
  Index scratch = 0;
  for (const PartTensor& tensor : tensors) {
    if (tensor.is_scratch) {
      scratch += bytes_of(tensor.spec) + alignment;
    } else {
      specs.push_back(tensor.spec);
    }
  }
  const Index room = bytes_of(specs, aligned) + spare_bytes + scratch;
  check_free_space(path, room);
  Descriptor file;
  {
    const core::MakingScope making;
    file = new_file(path, result.hints);
    guard.emplace(path, file.identity().inode);
  }
  struct stat replaced {};
  if (stat(result.file.c_str(), &replaced) == 0) fchmod(file.id(), 0600);  // until it gets its final permissions
  reserve(file, path, room);
  make_layout(path, specs, aligned);
  if (!file.is_named(path)) fail(ErrorKind::failure, "{}: was replaced while it was laid out", path);
  PartLayout layout = found_layout(file, path, tensors);
  reserve(file, path, layout.bytes + alignment + scratch);
  flush_and_close(file, path);
  return layout;
}

PartFile::PartFile(std::string path, PartLayout layout, const std::vector<PartTensor>& tensors, bool has_scratch)
    : path_(std::move(path)), layout_(std::move(layout)) {
  InspectedFile seen{path_, {}, {}};
  bytes_ = layout_.bytes;
  for (const PartTensor& tensor : tensors) {
    const TensorSpec& spec = tensor.spec;
    const auto offset = layout_.offsets.find(spec.name);
    core::require(offset != layout_.offsets.end(), [&] { return path_ + ": its layout lacks " + spec.name; });
    if (tensor.is_scratch && has_scratch) bytes_ = std::max(bytes_, offset->second + bytes_of(spec));
    seen.datasets[spec.name] = {spec.extents, spec.type, spec.order, offset->second};
    RawTensor& raw = tensors_[spec.name];
    raw.layout = layout_of(seen, spec.name);
    raw.layout.memory = tensor.memory;
    raw.layout.is_finite = false;
  }
  reopen();
}

void PartFile::reopen() {
  file_ = std::make_shared<Descriptor>(path_, O_RDWR | O_NOFOLLOW);
  for (auto& [name, raw] : tensors_) raw.file = file_;
  check(*file_, bytes_);
}

const RawTensor& PartFile::place(const std::string& dataset) const {
  const auto found = tensors_.find(dataset);
  core::require(found != tensors_.end(), [&] { return path_ + ": no dataset " + dataset; });
  return found->second;
}

/// Throws if `file` is not the file that was laid out, if path_ leads to another file, or if `file` is shorter than
/// `bytes`.
void PartFile::check(const Descriptor& file, Index bytes) const {
  const comm::BlockingScope inside("the check of " + path_);
  struct stat about {};
  if (fstat(file.id(), &about) != 0) fail(ErrorKind::failure, "{}: {}", path_, std::strerror(errno));
  if (Index(about.st_ino) != layout_.inode) {
    fail(ErrorKind::failure, "{}: is not the file that this run laid out (inode {}, expected {}); it is left as it is",
         path_, about.st_ino, layout_.inode);
  }
  if (!file.is_named(path_)) {
    fail(ErrorKind::failure, "{}: was removed, renamed or replaced while the run wrote it", path_);
  }
  if (Index(about.st_size) < bytes) {
    fail(ErrorKind::failure,
         "{}: was cut short: it has {} bytes, expected at least {}; what was finished is lost, begin anew with annulus "
         "run --restart",
         path_, about.st_size, bytes);
  }
}

void PartFile::write(core::StoredTensor tensor, const std::vector<core::RowPiece>& pieces) {
  const double start = core::wall_seconds();
  const std::string dataset(name_of(tensor));
  const RawTensor& to = place(dataset);
  UnitCheck& check = checks_[dataset];
  check.add(to.layout, pieces);
  for_each_stretch(to.layout, pieces, [&](Index begin, const std::byte* bytes, Index count) {
    check.add_bytes(to.layout, begin, bytes, count);
    const Index end = begin + count;
    const Index own_begin = std::min(end, core::ceil_div(begin, shared_block_bytes) * shared_block_bytes);
    const Index own_end = std::max(own_begin, end / shared_block_bytes * shared_block_bytes);
    if (own_end > own_begin) write_watched(to, own_begin, bytes + (own_begin - begin), own_end - own_begin, traffic_);
    const auto keep = [&](Index from, Index to_byte) {
      if (from < to_byte) borders_.push_back({dataset, from, {bytes + (from - begin), bytes + (to_byte - begin)}});
    };
    keep(begin, own_begin);
    keep(own_end, end);
  });
  traffic_.seconds += core::wall_seconds() - start;
}

void PartFile::note_written(const RawTensor& to, const std::string& dataset,
                            const std::vector<core::RowPiece>& pieces) {
  UnitCheck& check = checks_[dataset];
  check.add(to.layout, pieces);
  for_each_stretch(to.layout, pieces, [&](Index begin, const std::byte* bytes, Index count) {
    check.add_bytes(to.layout, begin, bytes, count);
  });
}

std::vector<std::string> PartFile::changed(const UnitChecks& checks) const {
  std::vector<std::string> found;
  std::vector<std::byte> bytes;
  core::RowTraffic traffic;
  for (const auto& [dataset, check] : checks) {
    RawTensor from = place(dataset);
    from.layout.memory = from.layout.type;
    const Index head_bytes = from.layout.head_numbers() * from.layout.number_bytes();
    UnitCheck now;
    for (std::vector<core::RowPiece> group : groups_of(from.layout, check.pieces, Index(16) << 20)) {
      Index end = 0;
      for (core::RowPiece& one : group) {
        one.head_pitch = head_bytes;
        one.pitch = one.heads.size() * head_bytes;
        end += one.count * one.pitch;
      }
      bytes.resize(std::size_t(end));
      std::byte* at = bytes.data();
      for (core::RowPiece& one : group) {
        one.memory = at;
        at += one.count * one.pitch;
      }
      {
        const comm::BlockingScope inside("the reading of finished units in " + path_);
        read_rows(from, group, traffic);
      }
      for_each_stretch(from.layout, group, [&](Index begin, const std::byte* some, Index count) {
        now.add_bytes(from.layout, begin, some, count);
      });
      comm::watchdog_progress();
    }
    if (now.sum != check.sum) found.push_back(dataset);
  }
  return found;
}

void PartFile::write_borders() {
  if (borders_.empty()) return;
  const double start = core::wall_seconds();
  auto file = std::make_shared<Descriptor>(path_, O_RDWR | O_NOFOLLOW);
  check(*file, bytes_);
  for (const Border& border : borders_) {
    RawTensor to = place(border.dataset);
    to.file = file;
    write_watched(to, border.begin, border.bytes.data(), Index(border.bytes.size()), traffic_);
  }
  flush_and_close(*file, path_);
  borders_.clear();
  traffic_.seconds += core::wall_seconds() - start;
}

void PartFile::flush() const {
  check(*file_, bytes_);
  flush_to_disk(*file_, path_);
}

void PartFile::close() {
  flush();
  for (auto& [name, raw] : tensors_) raw.file = nullptr;
  const std::shared_ptr<Descriptor> last = std::move(file_);
  if (last.use_count() == 1) flush_and_close(*last, path_);  // otherwise a FileRows still reads from the file
}

void PartFile::undo_record(const Descriptor& file) const {
  const comm::BlockingScope inside("the restoring of the layout of " + path_);
  check(file, layout_.bytes);
  for (const PartLayout::Bytes& one : layout_.bookkeeping) {
    const int code = write_all(file, one.bytes.data(), one.bytes.size(), one.begin);
    if (code != 0) fail(ErrorKind::failure, "{}: writing failed: {}", path_, std::strerror(code));
  }
  if (ftruncate(file.id(), layout_.bytes) != 0) {
    fail(ErrorKind::failure, "{}: cutting it to {} bytes failed: {}", path_, layout_.bytes, std::strerror(errno));
  }
}

void PartFile::complete(const Record& record) const {
  const Descriptor file(path_, O_RDWR | O_NOFOLLOW);
  undo_record(file);
  extend(file, path_, bytes_of(record) + spare_bytes);  // HDF5 removes the bytes that it does not use
  add_record(path_, record);
  check(file, layout_.bytes);
  flush_to_disk(file, path_);  // throws if flushing fails, and the file does not get its final name
}

}  // namespace annulus::store
