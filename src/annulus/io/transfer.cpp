#include "annulus/io/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "annulus/io/collective.hpp"

namespace annulus::io {
namespace {

using core::Interval;

/// Bytes that are turned at a time where the file has another order of axes than memory: large enough for the file
/// system, small beside what a rank holds.
constexpr Index turned_bytes = Index(32) << 20;

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

/// Rows of one dataset, those of this rank, on their way.
struct Rows {
  Target target;
  std::byte* host = nullptr;
  Index memory_rows = 0;  // rows of this rank
  std::vector<std::vector<Box>> pieces;

  const DatasetInfo& info() const { return target.info; }
  /// Bytes of all axes from this one on.
  Index bytes_from(std::size_t axis) const {
    return std::accumulate(info().extents.begin() + std::ptrdiff_t(axis), info().extents.end(),
                           Index(core::bytes_of(info().type)), std::multiplies<>());
  }
  Index row_bytes() const { return bytes_from(1) / info().extents[sequence_axis(info().order)]; }

  void move(Direction direction, const std::vector<Box>& piece, hid_t transfer) const {
    const SpaceId stored = stored_space(target);
    for (std::size_t i = 0; i < piece.size(); ++i) select(stored, info(), piece[i], piece[i].rows.begin, i == 0);
    if (info().order == AxisOrder::bshd) {
      move_as_it_lies(direction, piece, stored, transfer);
    } else {
      move_turned(direction, piece, stored, transfer);
    }
  }

 private:
  /// Moves one piece between a file (B, S, ...) and memory (B, rows, ...): the walks through both meet the same rows in
  /// the same order, because the intervals ascend and lie in memory in that order.
  void move_as_it_lies(Direction direction, const std::vector<Box>& piece, hid_t stored, hid_t transfer) const {
    std::vector<Index> extents = info().extents;
    extents[1] = memory_rows;
    const SpaceId memory = space_of(extents);
    check_hdf5(H5Sselect_none(memory), "HDF5 selection");
    for (std::size_t i = 0; i < piece.size(); ++i) select(memory, info(), piece[i], piece[i].memory_row, i == 0);
    move_selected(target, direction, stored, memory, host, transfer);
  }

  /// Moves one piece between a file (B, H, S, ...) and memory (B, rows, H, ...), through a buffer in the file's order.
  /// The boxes of a piece are of the same batch entries.
  void move_turned(Direction direction, const std::vector<Box>& piece, hid_t stored, hid_t transfer) const {
    Index rows = 0;
    for (const Box& box : piece) rows += box.rows.size();
    const Index bytes = piece.empty() ? 0 : piece.front().batch.size() * rows * row_bytes();
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(std::size_t(bytes));
    if (direction == Direction::write) {
      for_each_range(piece, [&](Index in_host, Index walked, Index count) {
        std::memcpy(buffer.get() + walked, host + in_host, std::size_t(count));
      });
    }
    const SpaceId memory = space_of({bytes / Index(core::bytes_of(info().type))});
    check_hdf5(H5Sselect_all(memory), "HDF5 selection");
    move_selected(target, direction, stored, memory, buffer.get(), transfer);
    if (direction == Direction::read) {
      for_each_range(piece, [&](Index in_host, Index walked, Index count) {
        std::memcpy(host + in_host, buffer.get() + walked, std::size_t(count));
      });
    }
  }

  /// Calls visit(offset in host memory, offset in the walk through the file, bytes) for every range of a piece that
  /// is contiguous in both. File (B, H, S, ...): batch entry by entry, head by head, all rows of the piece's boxes.
  /// Memory: (B, rows, H, ...).
  template <class Visit>
  void for_each_range(const std::vector<Box>& piece, Visit&& visit) const {
    if (piece.empty()) return;
    const Index heads = info().extents[1], bytes = bytes_from(3);  // of one row of one head
    Index walked = 0;
    for (Index b = piece.front().batch.begin; b < piece.front().batch.end; ++b) {
      for (Index h = 0; h < heads; ++h) {
        for (const Box& box : piece) {
          for (Index row = box.memory_row; row < box.memory_row + box.rows.size(); ++row, walked += bytes) {
            visit(((b * memory_rows + row) * heads + h) * bytes, walked, bytes);
          }
        }
      }
    }
  }
};

Rows cut_rows(hid_t file, const SeenFile& seen, const RowsIn& tensor, const std::vector<Interval>& intervals,
              Index piece_bytes) {
  Rows rows{open_target(file, seen, tensor.dataset), static_cast<std::byte*>(tensor.host), 0, {}};
  const auto& [extents, type, order] = rows.info();
  const bool as_it_lies = order == AxisOrder::bshd;
  core::require(extents.size() >= (as_it_lies ? 2 : 3), [&] { return rows.target.where() + ": no rows"; });
  const Index sequence = extents[sequence_axis(order)];
  Index end = 0;  // of the interval before
  for (const Interval& interval : intervals) {
    core::require(interval.begin >= end && interval.end <= sequence, [&] {
      return fmt::format("rows [{}, {}) of {} in {}", interval.begin, interval.end, sequence, tensor.dataset);
    });
    end = interval.end;
    rows.memory_rows += interval.size();
  }
  rows.pieces = cut_into_pieces(intervals, extents[0], rows.row_bytes(),
                                as_it_lies ? piece_bytes : std::min(piece_bytes, turned_bytes));
  return rows;
}

}  // namespace

void transfer_rows(const SeenFile& file, Direction direction, const std::vector<RowsIn>& tensors,
                   const std::vector<Interval>& rows, const comm::Communicator& comm, Index piece_bytes) {
  move_collectively(file, direction, tensors, comm,
                    [&](hid_t open, const RowsIn& tensor) { return cut_rows(open, file, tensor, rows, piece_bytes); });
}

void read_rows_alone(const SeenFile& seen, const RowsIn& tensor, Interval interval) {
  while_unchanged(seen, [&] {
    const FileId file = open_alone(seen.path, false);
    const Rows rows = cut_rows(file, seen, tensor, {interval}, max_piece_bytes);
    for (const auto& piece : rows.pieces) rows.move(Direction::read, piece, H5P_DEFAULT);
  });
}

}  // namespace annulus::io
