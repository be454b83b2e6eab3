#include "annulus/io/transfer.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "annulus/io/collective.hpp"
#include "annulus/io/conversion.hpp"

namespace annulus::io {
namespace {

using core::Interval;

/// Bytes that are turned at a time where the file has another order of axes, or another type, than memory: large enough
/// for the file system, small beside what a rank holds.
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
  Numbers host;
  Index memory_rows = 0;  // of this rank
  std::vector<std::vector<Box>> pieces;

  const DatasetInfo& info() const { return target.info; }
  /// Numbers of all axes from this one on.
  Index numbers_from(std::size_t axis) const {
    return std::accumulate(info().extents.begin() + std::ptrdiff_t(axis), info().extents.end(), Index(1),
                           std::multiplies<>());
  }
  Index row_numbers() const { return numbers_from(1) / info().extents[sequence_axis(info().order)]; }
  bool is_turned() const { return info().order == AxisOrder::bhsd; }
  bool lies_as_in_memory() const { return !is_turned() && host.type == info().type; }

  void move(Direction direction, const std::vector<Box>& piece, hid_t transfer) const {
    const SpaceId stored = stored_space(target);
    for (std::size_t i = 0; i < piece.size(); ++i) select(stored, info(), piece[i], piece[i].rows.begin, i == 0);
    if (lies_as_in_memory()) {
      move_as_it_lies(direction, piece, stored, transfer);
    } else {
      move_through_buffer(direction, piece, stored, transfer);
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
    move_selected(target, direction, stored, memory, host.data, transfer);
  }

  /// Moves one piece between the file and memory (B, rows, H, ...), through a buffer in the file's order and type. The
  /// boxes of a piece are of the same batch entries.
  void move_through_buffer(Direction direction, const std::vector<Box>& piece, hid_t stored, hid_t transfer) const {
    Index rows = 0;
    for (const Box& box : piece) rows += box.rows.size();
    const Index numbers = piece.empty() ? 0 : piece.front().batch.size() * rows * row_numbers();
    const std::size_t each = bytes_of(info().type), host_each = bytes_of(host.type);
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(std::size_t(numbers) * each);
    const auto copy = [&](Index in_host, Index walked, Index count) {
      const Numbers here{static_cast<std::byte*>(host.data) + in_host * Index(host_each), host.type};
      const Numbers there{buffer.get() + walked * Index(each), info().type};
      direction == Direction::write ? convert(here, there, count) : convert(there, here, count);
    };
    if (direction == Direction::write) for_each_range(piece, copy);
    const SpaceId memory = space_of({numbers});
    check_hdf5(H5Sselect_all(memory), "HDF5 selection");
    move_selected(target, direction, stored, memory, buffer.get(), transfer);
    if (direction == Direction::read) {
      for_each_range(piece, copy);
    } else {
      check_range(target, host.type, buffer.get(), numbers);
    }
  }

  /// Calls visit(place in host memory, place in the walk through the file, count), counted in numbers, for every range
  /// of a piece that is contiguous in both. Memory: (B, rows, H, ...). File (B, H, S, ...): batch entry by entry, head
  /// by head, all rows of the piece's boxes; (B, S, H, ...): the same with all heads as one.
  template <class Visit>
  void for_each_range(const std::vector<Box>& piece, Visit&& visit) const {
    if (piece.empty()) return;
    const Index heads = is_turned() ? info().extents[1] : 1, count = row_numbers() / heads;
    Index walked = 0;
    for (Index b = piece.front().batch.begin; b < piece.front().batch.end; ++b) {
      for (Index h = 0; h < heads; ++h) {
        for (const Box& box : piece) {
          for (Index row = box.memory_row; row < box.memory_row + box.rows.size(); ++row, walked += count) {
            visit(((b * memory_rows + row) * heads + h) * count, walked, count);
          }
        }
      }
    }
  }
};

Rows cut_rows(hid_t file, const SeenFile& seen, const RowsIn& tensor, const std::vector<Interval>& intervals,
              Index piece_bytes) {
  Rows rows{open_target(file, seen, tensor.dataset), {tensor.host, core::DType::float32}, 0, {}};
  const auto& [extents, type, order] = rows.info();
  rows.host.type = tensor.type.value_or(type);
  core::require(extents.size() >= (rows.is_turned() ? 3 : 2), [&] { return rows.target.where() + ": no rows"; });
  const Index sequence = extents[sequence_axis(order)];
  Index end = 0;  // of the interval before
  for (const Interval& interval : intervals) {
    core::require(interval.begin >= end && interval.end <= sequence, [&] {
      return fmt::format("rows [{}, {}) of {} in {}", interval.begin, interval.end, sequence, tensor.dataset);
    });
    end = interval.end;
    rows.memory_rows += interval.size();
  }
  rows.pieces = cut_into_pieces(intervals, extents[0], rows.row_numbers() * Index(bytes_of(type)),
                                rows.lies_as_in_memory() ? piece_bytes : std::min(piece_bytes, turned_bytes));
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
