#include <cstring>

#include "annulus/core/metrics.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/hdf5/dataset_storage.hpp"

namespace annulus::store {
namespace {

using core::fail;
using core::RowPiece;

constexpr Index buffer_bytes = Index(32) << 20;  // size of the buffer into which HDF5 reads rows in one call

/// Reads a piece's rows in the file's order, (rows, heads, numbers) or (heads, rows, numbers), with one call of HDF5.
void read_piece(hid_t dataset, hid_t type, const RowLayout& layout, const RowPiece& piece,
                std::vector<std::byte>& rows) {
  const auto in_file_order = [&](Index batch, Index row, Index head, Index number) {
    return per_axis<hsize_t>(layout, {hsize_t(batch), hsize_t(row), hsize_t(head), hsize_t(number)});
  };
  const auto start = in_file_order(piece.batch, piece.first, piece.heads.begin, 0),
             step = in_file_order(1, piece.stride, 1, 1),
             count = in_file_order(1, piece.count, piece.heads.size(), layout.head_numbers());
  const SpaceId stored(check_hdf5(comm::blocking("H5Dget_space", H5Dget_space, dataset), "HDF5 file space"));
  check_hdf5(H5Sselect_hyperslab(stored, H5S_SELECT_SET, start.data(), step.data(), count.data(), nullptr),
             "HDF5 selection");
  const Index numbers = piece.count * piece.heads.size() * layout.head_numbers();
  rows.resize(std::size_t(numbers * layout.number_bytes()));
  const SpaceId memory = space_of({numbers});
  if (comm::blocking("H5Dread", H5Dread, dataset, type, memory, stored, H5P_DEFAULT, rows.data()) >= 0) return;
  const std::string reason = hdf5_reason();
  fail(core::ErrorKind::failure, "{}: reading failed{}{}", layout.where, reason, missing_filters(dataset));
}

/// Copies the rows that read_piece() has read to their positions in memory, and checks their numbers.
void scatter(const RowLayout& layout, const RowPiece& piece, const std::vector<std::byte>& rows) {
  const Index heads = piece.heads.size(), head_bytes = layout.head_numbers() * layout.number_bytes();
  const bool by_rows = layout.order == core::AxisOrder::bshd;
  for (Index i = 0; i < piece.count; ++i) {
    for (Index h = 0; h < heads; ++h) {
      std::byte* to = static_cast<std::byte*>(piece.memory) + i * piece.pitch + h * piece.head_pitch;
      std::memcpy(to, rows.data() + (by_rows ? i * heads + h : h * piece.count + i) * head_bytes,
                  std::size_t(head_bytes));
      const auto found = find_unwanted(layout, to, layout.head_numbers());
      if (!found) continue;
      const OneNumber at{piece.batch, piece.first + i * piece.stride, piece.heads.begin + h, found->index};
      fail(core::ErrorKind::failure, "{} holds {} at {}, {}", layout.where, found->value, index_text(layout, at),
           found->expected());
    }
  }
}

}  // namespace

void read_rows(const Hdf5Tensor& tensor, const std::vector<RowPiece>& pieces, core::RowTraffic& traffic) {
  const double begin = core::wall_seconds();
  std::vector<std::byte> rows;
  while_unchanged(tensor.file, [&] {
    const FileId file = open_alone(tensor.file.path, false);
    const DatasetId dataset = open_dataset(file, tensor.file.path, tensor.dataset);
    const DatasetInfo& info = tensor.file.at(tensor.dataset);
    check_as_inspected(dataset, tensor.layout.where, info);
    const TypeId type = memory_type(info.type);
    std::vector<RowPiece> in_file;
    for (const RowPiece& piece : existing(tensor.layout, pieces)) {
      const std::vector<RowPiece> parts = in_entries(piece, tensor.layout.extents[1]);
      in_file.insert(in_file.end(), parts.begin(), parts.end());
    }
    for (const std::vector<RowPiece>& group : groups_of(tensor.layout, in_file, buffer_bytes)) {
      for (const RowPiece& piece : group) {
        read_piece(dataset, type, tensor.layout, piece, rows);
        traffic.asked += Index(rows.size());
        traffic.moved += Index(rows.size());  // HDF5 does not report how many bytes of chunks it read
        scatter(tensor.layout, piece, rows);
      }
    }
  });
  traffic.seconds += core::wall_seconds() - begin;
}

}  // namespace annulus::store
