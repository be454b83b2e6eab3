#include "annulus/store/row_reading.hpp"

#include "annulus/comm/root.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"

namespace annulus::store {
namespace {

using core::Interval;

/// A file that another program replaces or cuts short makes reads fail in many ways: the message names the cause.
void read(const InspectedFile& file, const std::string& dataset, const std::vector<core::RowPiece>& pieces,
          Wanted wanted) {
  core::RowTraffic traffic;
  while_unchanged(file, [&] {
    RowOrigin from = origin_of(file, dataset);
    if (wanted == Wanted::any_numbers) allow_any_numbers(from);
    read_rows(from, pieces, traffic);
  });
}

}  // namespace

std::vector<core::RowPiece> pieces_of(Interval batch, const std::vector<Interval>& rows, Interval heads,
                                      Index head_numbers, Index number_bytes, const void* memory) {
  const Index head_pitch = head_numbers * number_bytes, pitch = heads.size() * head_pitch;
  auto* at = static_cast<std::byte*>(const_cast<void*>(memory));  // a piece is read into or written from
  std::vector<core::RowPiece> pieces;
  for (Index b = batch.begin; b < batch.end; ++b) {
    for (const Interval& interval : rows) {
      pieces.push_back({b, interval.begin, 1, interval.size(), heads, at, pitch, head_pitch});
      at += interval.size() * pitch;
    }
  }
  return pieces;
}

void read_rows(const InspectedFile& file, const RowsIn& tensor, const std::vector<Interval>& rows, Wanted wanted) {
  const RowLayout layout = layout_of(file, tensor.dataset);
  read(file, tensor.dataset,
       pieces_of({0, layout.extents[0]}, rows, {0, layout.heads()}, layout.head_numbers(), layout.number_bytes(),
                 tensor.host),
       wanted);
}

void read_part(const InspectedFile& file, const MatrixPart& part, Wanted wanted) {
  if (part.part.count() == 0) return;
  read(file, part.dataset, {piece_of(part, layout_of(file, part.dataset).number_bytes())}, wanted);
}

void find_offsets(InspectedFile& file, const comm::Communicator& comm) {
  const std::vector<Index> offsets = comm::numbers_from_root(comm, [&] {
    const FileId open = open_alone(file.path, false);
    std::vector<Index> found;
    for (const auto& [name, info] : file.datasets) {
      const std::string where = fmt::format("{}: dataset {}", file.path, name);
      found.push_back(offset_of(open_dataset(open, file.path, name), where, info.type));
    }
    return found;
  });
  std::size_t i = 0;
  for (auto& [name, info] : file.datasets) info.offset = offsets.at(i++);
}

}  // namespace annulus::store
