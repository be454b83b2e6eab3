#include "annulus/io/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "annulus/comm/watchdog.hpp"
#include "annulus/io/dataset_checks.hpp"
#include "annulus/io/together.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::Interval;

/// Bytes that are turned at a time where the file has another order of axes than memory: large enough for the file
/// system, small beside what a rank holds.
constexpr Index turned_bytes = Index(32) << 20;

/// One dataset with what every piece needs.
struct Target {
  std::string path, name;
  DatasetId dataset;
  DatasetInfo info;
  TypeId type;            // in memory
  Index memory_rows = 0;  // rows of this rank
  std::byte* host = nullptr;

  Index extent(std::size_t axis) const { return info.extents[axis]; }
  Index sequence() const { return extent(sequence_axis(info.order)); }
  Index row_bytes() const { return bytes_from(1) / sequence(); }
  /// Bytes of all axes from this one on.
  Index bytes_from(std::size_t axis) const {
    return std::accumulate(info.extents.begin() + std::ptrdiff_t(axis), info.extents.end(),
                           Index(core::bytes_of(info.type)), std::multiplies<>());
  }
  std::vector<std::vector<Box>> pieces(const std::vector<Interval>& rows, Index piece_bytes) const {
    const Index most = info.order == AxisOrder::bshd ? piece_bytes : std::min(piece_bytes, turned_bytes);
    return cut_into_pieces(rows, extent(0), row_bytes(), most);
  }
};

Target open_target(hid_t file, const SeenFile& seen, const RowsIn& tensor, const std::vector<Interval>& rows) {
  const DatasetInfo& info = seen.at(tensor.dataset);
  Target target{seen.path,
                tensor.dataset,
                open_as_seen(file, seen, tensor.dataset),
                info,
                memory_type(info.type),
                0,
                static_cast<std::byte*>(tensor.host)};
  const std::size_t axes = info.order == AxisOrder::bshd ? 2 : 3;
  core::require(info.extents.size() >= axes, [&] { return seen.path + ": no rows in " + tensor.dataset; });
  Index end = 0;  // of the interval before
  for (const Interval& interval : rows) {
    core::require(interval.begin >= end && interval.end <= target.sequence(), [&] {
      return fmt::format("rows [{}, {}) of {} in {}", interval.begin, interval.end, target.sequence(), tensor.dataset);
    });
    end = interval.end;
    target.memory_rows += interval.size();
  }
  return target;
}

/// Adds a box of rows of all heads to the selection of `space`, in which they begin at `first_row`.
void select(hid_t space, const DatasetInfo& info, const Box& box, Index first_row, bool first) {
  std::vector<hsize_t> start(info.extents.size(), 0), count(info.extents.begin(), info.extents.end());
  const std::size_t axis = sequence_axis(info.order);
  start[0] = hsize_t(box.batch.begin);
  start[axis] = hsize_t(first_row);
  count[0] = hsize_t(box.batch.size());
  count[axis] = hsize_t(box.rows.size());
  check_hdf5(
      H5Sselect_hyperslab(space, first ? H5S_SELECT_SET : H5S_SELECT_OR, start.data(), nullptr, count.data(), nullptr),
      "HDF5 selection");
}

SpaceId space_of(const std::vector<Index>& extents) {
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  SpaceId space(check_hdf5(H5Screate_simple(int(sizes.size()), sizes.data(), nullptr), "HDF5 memory space"));
  check_hdf5(H5Sselect_none(space), "HDF5 selection");
  return space;
}

/// One call of HDF5 between the piece's boxes in the file and what is selected of `memory` at `host`. Both selections
/// are walked in row-major order.
void call_hdf5(const Target& target, Direction direction, const std::vector<Box>& piece, hid_t memory, void* host,
               hid_t transfer) {
  const SpaceId stored(check_hdf5(H5Dget_space(target.dataset), "HDF5 file space"));
  check_hdf5(H5Sselect_none(stored), "HDF5 selection");
  for (std::size_t i = 0; i < piece.size(); ++i) select(stored, target.info, piece[i], piece[i].rows.begin, i == 0);
  char nothing = 0;  // ranks without rows take part with an empty selection, and HDF5 wants an address all the same
  if (host == nullptr) host = &nothing;
  if (direction == Direction::read) {
    check_hdf5(comm::blocking("H5Dread", H5Dread, target.dataset, target.type, memory, stored, transfer, host),
               "{}: reading {} failed", target.path, target.name);
  } else {
    check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, target.dataset, target.type, memory, stored, transfer, host),
               "{}: writing {} failed", target.path, target.name);
  }
}

/// Moves one piece between a file (B, S, ...) and memory (B, rows, ...): the walks through both meet the same rows in
/// the same order, because the intervals ascend and lie in memory in that order.
void move_as_it_lies(const Target& target, Direction direction, const std::vector<Box>& piece, hid_t transfer) {
  std::vector<Index> extents = target.info.extents;
  extents[1] = target.memory_rows;
  const SpaceId memory = space_of(extents);
  for (std::size_t i = 0; i < piece.size(); ++i) select(memory, target.info, piece[i], piece[i].memory_row, i == 0);
  call_hdf5(target, direction, piece, memory, target.host, transfer);
}

/// Calls visit(offset in host memory, offset in the walk through the file, bytes) for every stretch of a piece that is
/// contiguous in both. File (B, H, S, ...): batch entry by entry, head by head, all rows of the piece's boxes.
/// Memory: (B, rows, H, ...).
template <class Visit>
void for_each_stretch(const Target& target, const std::vector<Box>& piece, Visit&& visit) {
  const Index heads = target.extent(1), bytes = target.bytes_from(3);  // of one row of one head
  Index walked = 0;
  for (Index b = piece.front().batch.begin; b < piece.front().batch.end; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (const Box& box : piece) {
        for (Index row = box.memory_row; row < box.memory_row + box.rows.size(); ++row, walked += bytes) {
          visit(((b * target.memory_rows + row) * heads + h) * bytes, walked, bytes);
        }
      }
    }
  }
}

/// Moves one piece between a file (B, H, S, ...) and memory (B, rows, H, ...), through a buffer in the file's order.
/// The boxes of a piece are of the same batch entries.
void move_turned(const Target& target, Direction direction, const std::vector<Box>& piece, hid_t transfer) {
  if (piece.empty()) return call_hdf5(target, direction, piece, space_of({1}), nullptr, transfer);
  Index rows = 0;
  for (const Box& box : piece) rows += box.rows.size();
  const Index bytes = piece.front().batch.size() * rows * target.row_bytes();
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(std::size_t(bytes));
  if (direction == Direction::write) {
    for_each_stretch(target, piece, [&](Index host, Index walked, Index count) {
      std::memcpy(buffer.get() + walked, target.host + host, std::size_t(count));
    });
  }
  const SpaceId memory = space_of({bytes / Index(core::bytes_of(target.info.type))});
  check_hdf5(H5Sselect_all(memory), "HDF5 selection");
  call_hdf5(target, direction, piece, memory, buffer.get(), transfer);
  if (direction == Direction::read) {
    for_each_stretch(target, piece, [&](Index host, Index walked, Index count) {
      std::memcpy(target.host + host, buffer.get() + walked, std::size_t(count));
    });
  }
}

void move_piece(const Target& target, Direction direction, const std::vector<Box>& piece, hid_t transfer) {
  const auto move = target.info.order == AxisOrder::bshd ? move_as_it_lies : move_turned;
  move(target, direction, piece, transfer);
}

void transfer_all(const SeenFile& seen, Direction direction, const std::vector<RowsIn>& tensors,
                  const std::vector<Interval>& rows, const comm::Communicator& comm, Index piece_bytes) {
  FileId file = open_together(seen.path, direction, comm);
  const PropertyId transfer = transfer_together();
  for (const RowsIn& tensor : tensors) {
    Target target;
    std::vector<std::vector<Box>> pieces;
    comm::agree(comm, [&] {
      target = open_target(file, seen, tensor, rows);
      pieces = target.pieces(rows, piece_bytes);
    });
    const Index calls = comm.max(Index(pieces.size()));
    pieces.resize(std::size_t(calls));  // the same number of collective calls on every rank
    for (const auto& piece : pieces) {
      comm::agree(comm, [&] { move_piece(target, direction, piece, transfer); });
    }
  }
  close_together(std::move(file), seen.path, comm);
}

}  // namespace

void transfer_rows(const SeenFile& file, Direction direction, const std::vector<RowsIn>& tensors,
                   const std::vector<Interval>& rows, const comm::Communicator& comm, Index piece_bytes) {
  const comm::Place place(fmt::format("{} {}", direction == Direction::read ? "reading" : "writing", file.path));
  const auto transfer = [&] { transfer_all(file, direction, tensors, rows, comm, piece_bytes); };
  if (direction == Direction::read) {
    while_unchanged(file, comm, transfer);
  } else {
    transfer();
  }
}

void read_rows_alone(const SeenFile& seen, const RowsIn& tensor, Interval rows) {
  while_unchanged(seen, [&] {
    const FileId file = open_alone(seen.path, false);
    const Target target = open_target(file, seen, tensor, {rows});
    for (const auto& piece : target.pieces({rows}, max_piece_bytes)) {
      move_piece(target, Direction::read, piece, H5P_DEFAULT);
    }
  });
}

}  // namespace annulus::io
