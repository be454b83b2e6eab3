#include "annulus/io/transfer.hpp"

#include <algorithm>
#include <numeric>

#include "annulus/comm/watchdog.hpp"
#include "annulus/io/together.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::Interval;

// Combining boxes into one selection takes time quadratic in their number.
constexpr std::size_t max_boxes = 256;

/// One dataset with what every piece needs.
struct Target {
  std::string path, name;
  DatasetId dataset;
  std::vector<hsize_t> extents;  // (B, S, ...)
  TypeId type;                   // in memory
  hsize_t memory_rows = 0;       // rows of this rank
  void* host = nullptr;

  Index row_bytes() const {
    return std::accumulate(extents.begin() + 2, extents.end(), Index(H5Tget_size(type)),
                           [](Index product, hsize_t extent) { return product * Index(extent); });
  }
};

Target open_target(hid_t file, const std::string& path, const RowsIn& tensor, const std::vector<Interval>& rows) {
  Target target{path, tensor.dataset, open_dataset(file, path, tensor.dataset), {}, {}, 0, tensor.host};
  target.extents = extents_of(target.dataset);
  const TypeId stored(check_hdf5(H5Dget_type(target.dataset), "{}: type of {}", path, tensor.dataset));
  const auto type = dtype_of(stored);
  core::require(type && target.extents.size() >= 2, [&] { return path + ": unchecked dataset " + tensor.dataset; });
  target.type = memory_type(*type);
  Index end = 0;  // of the interval before
  for (const Interval& interval : rows) {
    core::require(interval.begin >= end && interval.end <= Index(target.extents[1]), [&] {
      return fmt::format("rows [{}, {}) of {} in {}", interval.begin, interval.end, target.extents[1], tensor.dataset);
    });
    end = interval.end;
    target.memory_rows += hsize_t(interval.size());
  }
  return target;
}

/// Adds a box of (B, S, ...) to the selection of `space`; its rows begin at `first_row`.
void select(hid_t space, std::vector<hsize_t> extents, const Box& box, hsize_t first_row, bool first) {
  std::vector<hsize_t> start(extents.size(), 0);
  start[0] = hsize_t(box.batch.begin);
  start[1] = first_row;
  extents[0] = hsize_t(box.batch.size());
  extents[1] = hsize_t(box.rows.size());
  check_hdf5(H5Sselect_hyperslab(space, first ? H5S_SELECT_SET : H5S_SELECT_OR, start.data(), nullptr, extents.data(),
                                 nullptr),
             "HDF5 selection");
}

/// Moves one piece. Both selections are walked in row-major order, which meets the same rows in the same order because
/// the intervals ascend and lie in memory in that order.
void move_piece(const Target& target, Direction direction, const std::vector<Box>& piece, hid_t transfer) {
  std::vector<hsize_t> memory_extents = target.extents;
  memory_extents[1] = target.memory_rows;
  const int rank = int(memory_extents.size());
  const SpaceId memory(check_hdf5(H5Screate_simple(rank, memory_extents.data(), nullptr), "HDF5 memory space"));
  const SpaceId stored(check_hdf5(H5Dget_space(target.dataset), "HDF5 file space"));
  check_hdf5(H5Sselect_none(memory), "HDF5 selection");
  check_hdf5(H5Sselect_none(stored), "HDF5 selection");
  for (std::size_t i = 0; i < piece.size(); ++i) {
    select(stored, target.extents, piece[i], hsize_t(piece[i].rows.begin), i == 0);
    select(memory, target.extents, piece[i], hsize_t(piece[i].memory_row), i == 0);
  }
  char nothing = 0;  // ranks without rows take part with an empty selection, and HDF5 wants an address all the same
  void* host = target.host == nullptr ? &nothing : target.host;
  if (direction == Direction::read) {
    check_hdf5(comm::blocking("H5Dread", H5Dread, target.dataset, target.type, memory, stored, transfer, host),
               "{}: reading {} failed", target.path, target.name);
  } else {
    check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, target.dataset, target.type, memory, stored, transfer, host),
               "{}: writing {} failed", target.path, target.name);
  }
}

}  // namespace

std::vector<std::vector<Box>> cut_into_pieces(const std::vector<Interval>& rows, Index batch, Index row_bytes,
                                              Index piece_bytes) {
  // Where one row of all entries is too large for a piece, the entries are cut, and then every row stands alone.
  const Index entries = std::clamp<Index>(piece_bytes / row_bytes, 1, batch);
  const Index most_rows = entries < batch ? 1 : std::max<Index>(1, piece_bytes / (batch * row_bytes));
  std::vector<std::vector<Box>> pieces;
  Index free_rows = 0, memory_row = 0;
  for (const Interval& interval : rows) {
    for (Index row = interval.begin; row < interval.end;) {
      if (free_rows == 0 || pieces.back().size() == max_boxes) {
        pieces.emplace_back();
        free_rows = most_rows;
      }
      const Interval taken{row, std::min(interval.end, row + free_rows)};
      for (Index b = 0; b < batch; b += entries) {
        if (b > 0) pieces.emplace_back();
        pieces.back().push_back({{b, std::min(batch, b + entries)}, taken, memory_row});
      }
      free_rows -= taken.size();
      memory_row += taken.size();
      row = taken.end;
    }
  }
  return pieces;
}

void transfer_rows(const std::string& path, Direction direction, const std::vector<RowsIn>& tensors,
                   const std::vector<Interval>& rows, const comm::Communicator& comm, Index piece_bytes) {
  const comm::Place place(fmt::format("{} {}", direction == Direction::read ? "reading" : "writing", path));
  FileId file = open_together(path, direction, comm);
  const PropertyId transfer = transfer_together();
  for (const RowsIn& tensor : tensors) {
    Target target;
    std::vector<std::vector<Box>> pieces;
    comm::agree(comm, [&] {
      target = open_target(file, path, tensor, rows);
      pieces = cut_into_pieces(rows, Index(target.extents[0]), target.row_bytes(), piece_bytes);
    });
    const Index calls = comm.max(Index(pieces.size()));
    pieces.resize(std::size_t(calls));  // the same number of collective calls on every rank
    for (const auto& piece : pieces) {
      comm::agree(comm, [&] { move_piece(target, direction, piece, transfer); });
    }
  }
  close_together(std::move(file), path, comm);
}

void read_rows_alone(const std::string& path, const RowsIn& tensor, Interval rows) {
  const FileId file = open_alone(path, false);
  const Target target = open_target(file, path, tensor, {rows});
  for (const auto& piece : cut_into_pieces({rows}, Index(target.extents[0]), target.row_bytes(), max_piece_bytes)) {
    move_piece(target, Direction::read, piece, H5P_DEFAULT);
  }
}

}  // namespace annulus::io
