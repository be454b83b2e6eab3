#include "annulus/io/part_transfer.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"
#include "annulus/io/dataset_checks.hpp"
#include "annulus/io/together.hpp"

namespace annulus::io {
namespace {

using core::Interval;

/// One dataset with what every piece needs.
struct Target {
  std::string where;  // "FILE: dataset /wq"
  DatasetId dataset;
  std::size_t axes = 2;
  TypeId type;  // in memory
};

Target open_target(hid_t file, const SeenFile& seen, const MatrixPart& part) {
  Target target{seen.path + ": dataset " + part.dataset, open_as_seen(file, seen, part.dataset), 2, {}};
  const std::vector<Index>& extents = seen.at(part.dataset).extents;
  core::require(extents.size() == 1 || extents.size() == 2, [&] { return target.where + " is no matrix"; });
  const Index columns = extents.size() == 2 ? extents[1] : 1;
  const auto inside = [](Interval part, Interval whole) { return whole.begin <= part.begin && part.end <= whole.end; };
  const bool fits = part.part.count() == 0 ||
                    (inside(part.kept.rows, {0, extents[0]}) && inside(part.kept.columns, {0, columns}) &&
                     inside(part.part.rows, part.kept.rows) && inside(part.part.columns, part.kept.columns));
  core::require(fits, [&] { return target.where + ": a part outside"; });
  target.axes = extents.size();
  target.type = memory_type(seen.at(part.dataset).type);
  return target;
}

/// Selects rows x columns of a space, counted from where `origin` begins. With one axis HDF5 looks at the rows only.
void select(hid_t space, const Rectangle& part, const Rectangle& origin) {
  const hsize_t start[2] = {hsize_t(part.rows.begin - origin.rows.begin),
                            hsize_t(part.columns.begin - origin.columns.begin)};
  const hsize_t count[2] = {hsize_t(part.rows.size()), hsize_t(part.columns.size())};
  check_hdf5(part.count() == 0 ? H5Sselect_none(space)
                               : H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr),
             "HDF5 selection");
}

void move_piece(const Target& target, Direction direction, const MatrixPart& part, const Rectangle& piece,
                hid_t transfer) {
  const hsize_t kept[2] = {hsize_t(part.kept.rows.size()), hsize_t(part.kept.columns.size())};
  const SpaceId memory(check_hdf5(H5Screate_simple(int(target.axes), kept, nullptr), "HDF5 memory space"));
  const SpaceId stored(check_hdf5(H5Dget_space(target.dataset), "HDF5 file space"));
  select(memory, piece, part.kept);
  select(stored, piece, {});
  char nothing = 0;  // HDF5 wants an address from ranks without numbers, too
  void* host = part.host == nullptr ? &nothing : part.host;
  if (direction == Direction::read) {
    check_hdf5(comm::blocking("H5Dread", H5Dread, target.dataset, target.type, memory, stored, transfer, host),
               "{}: reading failed", target.where);
  } else {
    check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, target.dataset, target.type, memory, stored, transfer, host),
               "{}: writing failed", target.where);
  }
}

/// The part in rows that are moved by one call each; an empty part in none.
std::vector<Rectangle> cut(const Rectangle& part, Index bytes_per_number, Index piece_bytes) {
  std::vector<Rectangle> pieces;
  if (part.count() == 0) return pieces;
  const Index step = std::max<Index>(1, piece_bytes / (part.columns.size() * bytes_per_number));
  for (Index row = part.rows.begin; row < part.rows.end; row += step) {
    pieces.push_back({{row, std::min(part.rows.end, row + step)}, part.columns});
  }
  return pieces;
}

void transfer_all(const SeenFile& seen, Direction direction, const std::vector<MatrixPart>& parts,
                  const comm::Communicator& comm, Index piece_bytes) {
  FileId file = open_together(seen.path, direction, comm);
  const PropertyId transfer = transfer_together();
  for (const MatrixPart& part : parts) {
    Target target;
    std::vector<Rectangle> pieces;
    comm::agree(comm, [&] {
      target = open_target(file, seen, part);
      pieces = cut(part.part, Index(H5Tget_size(target.type)), piece_bytes);
    });
    pieces.resize(std::size_t(comm.max(Index(pieces.size()))));  // the same number of collective calls on every rank
    for (const Rectangle& piece : pieces) {
      comm::agree(comm, [&] { move_piece(target, direction, part, piece, transfer); });
    }
  }
  close_together(std::move(file), seen.path, comm);
}

}  // namespace

void transfer_parts(const SeenFile& file, Direction direction, const std::vector<MatrixPart>& parts,
                    const comm::Communicator& comm, Index piece_bytes) {
  const comm::Place place(fmt::format("{} {}", direction == Direction::read ? "reading" : "writing", file.path));
  const auto transfer = [&] { transfer_all(file, direction, parts, comm, piece_bytes); };
  if (direction == Direction::read) {
    while_unchanged(file, comm, transfer);
  } else {
    transfer();
  }
}

}  // namespace annulus::io
