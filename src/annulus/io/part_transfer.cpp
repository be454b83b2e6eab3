#include "annulus/io/part_transfer.hpp"

#include <algorithm>
#include <memory>

#include "annulus/io/collective.hpp"
#include "annulus/io/conversion.hpp"

namespace annulus::io {
namespace {

using core::Interval;

/// Selects rows x columns of a space, counted from where `origin` begins. With one axis HDF5 looks at the rows only.
void select(hid_t space, const Rectangle& part, const Rectangle& origin) {
  const hsize_t start[2] = {hsize_t(part.rows.begin - origin.rows.begin),
                            hsize_t(part.columns.begin - origin.columns.begin)};
  const hsize_t count[2] = {hsize_t(part.rows.size()), hsize_t(part.columns.size())};
  check_hdf5(part.count() == 0 ? H5Sselect_none(space)
                               : H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr),
             "HDF5 selection");
}

/// A part of a matrix on its way; pieces are rows that are moved by one call each.
struct Part {
  Target target;
  Rectangle kept;
  Numbers host;
  std::vector<Rectangle> pieces;

  void move(Direction direction, const Rectangle& piece, hid_t transfer) const {
    const SpaceId stored = stored_space(target);
    select(stored, piece, {});
    if (host.type != target.info.type) {
      core::require(direction == Direction::write, [&] { return target.where() + " is read as another type"; });
      write_converted(piece, stored, transfer);
      return;
    }
    std::vector<Index> extents{kept.rows.size(), kept.columns.size()};
    extents.resize(target.info.extents.size());
    const SpaceId memory = space_of(extents);
    select(memory, piece, kept);
    move_selected(target, direction, stored, memory, host.data, transfer);
  }

 private:
  void write_converted(const Rectangle& piece, hid_t stored, hid_t transfer) const {
    const Index columns = piece.columns.size(), each = Index(bytes_of(target.info.type));
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(std::size_t(piece.count() * each));
    for (Index row = piece.rows.begin; row < piece.rows.end; ++row) {
      const Index at = (row - kept.rows.begin) * kept.columns.size() + piece.columns.begin - kept.columns.begin;
      convert({static_cast<std::byte*>(host.data) + at * Index(bytes_of(host.type)), host.type},
              {buffer.get() + (row - piece.rows.begin) * columns * each, target.info.type}, columns);
    }
    const SpaceId memory = space_of({piece.count()});
    check_hdf5(H5Sselect_all(memory), "HDF5 selection");
    move_selected(target, Direction::write, stored, memory, buffer.get(), transfer);
    check_range(target, host.type, buffer.get(), piece.count());
  }
};

Part cut_part(hid_t file, const SeenFile& seen, const MatrixPart& matrix, Index piece_bytes) {
  Part part{open_target(file, seen, matrix.dataset), matrix.kept, {matrix.host, core::DType::float32}, {}};
  part.host.type = matrix.type.value_or(part.target.info.type);
  const std::vector<Index>& extents = part.target.info.extents;
  core::require(extents.size() == 1 || extents.size() == 2, [&] { return part.target.where() + " is no matrix"; });
  if (matrix.part.count() == 0) return part;
  const Rectangle whole{{0, extents[0]}, {0, extents.size() == 2 ? extents[1] : 1}};
  const auto inside = [](Interval part, Interval whole) { return whole.begin <= part.begin && part.end <= whole.end; };
  const bool fits = inside(matrix.kept.rows, whole.rows) && inside(matrix.kept.columns, whole.columns) &&
                    inside(matrix.part.rows, matrix.kept.rows) && inside(matrix.part.columns, matrix.kept.columns);
  core::require(fits, [&] { return part.target.where() + ": a part outside"; });
  const Index row_bytes = matrix.part.columns.size() * Index(bytes_of(part.target.info.type));
  const Index step = std::max<Index>(1, piece_bytes / row_bytes);
  for (Index row = matrix.part.rows.begin; row < matrix.part.rows.end; row += step) {
    part.pieces.push_back({{row, std::min(matrix.part.rows.end, row + step)}, matrix.part.columns});
  }
  return part;
}

}  // namespace

void transfer_parts(const SeenFile& file, Direction direction, const std::vector<MatrixPart>& parts,
                    const comm::Communicator& comm, Index piece_bytes) {
  move_collectively(file, direction, parts, comm,
                    [&](hid_t open, const MatrixPart& part) { return cut_part(open, file, part, piece_bytes); });
}

}  // namespace annulus::io
