// HDF5 files that all ranks have open at the same time. Included by .cpp files of this room only.
//
// What can fail on one rank alone is checked before the collective call and agreed on: a rank that does not come to the
// call would leave the others waiting in it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/seen_file.hpp"
#include "annulus/io/side_files.hpp"
#include "annulus/io/transfer.hpp"

namespace annulus::io {

/// A dataset that numbers go to or come from.
struct Target {
  std::string path, name;
  DatasetInfo info;
  DatasetId dataset;
  TypeId type;  ///< in memory

  std::string where() const { return fmt::format("{}: dataset {}", path, name); }
};

/// Opens a dataset that was looked at before. Throws Error(failure) where its extents or type are others now: buffers
/// were made for those that were seen.
Target open_target(hid_t file, const SeenFile& seen, const std::string& name);

SpaceId space_of(const std::vector<Index>& extents);

/// The selected part of the dataset, as a space of HDF5; nothing is selected yet.
SpaceId stored_space(const Target& target);

/// One call of HDF5 between what is selected of the dataset and of `memory` at `host`, both walked in row-major order.
/// Collective when `transfer` is; ranks that move nothing select nothing, and their `host` may be null.
void move_selected(const Target& target, Direction direction, hid_t stored, hid_t memory, void* host, hid_t transfer);

/// Throws Error(failure) where numbers, on their way into a dataset of fewer bits than `from`, became infinite. To be
/// called behind the collective call that writes them, to which every rank has to come.
void check_range(const Target& target, NumberType from, const void* converted, Index count);

// The first and the last are collective and throw the same Error(failure) on every rank.
FileId open_collectively(const SeenFile& seen, Direction direction, const comm::Communicator& comm);
PropertyId collective_transfer();
void close_collectively(FileId file, const std::string& path, const comm::Communicator& comm);

/// Moves numbers of several datasets, piece by piece; collective. `cut(file, item)` opens an item's dataset and gives
/// an object with `pieces` and `move(direction, piece, transfer)`, where an empty piece moves nothing. A file that is
/// read must be what was seen, one that is written need not. Throws the same Error(failure) on every rank.
template <class Item, class Cut>
void move_collectively(const SeenFile& seen, Direction direction, const std::vector<Item>& items,
                       const comm::Communicator& comm, Cut&& cut) {
  const comm::Scope place(fmt::format("{} {}", direction == Direction::read ? "reading" : "writing", seen.path));
  const auto move_all = [&] {
    std::optional<SideFiles> beside;
    if (direction == Direction::write) beside.emplace(seen.path, comm.rank());
    FileId file = open_collectively(seen, direction, comm);
    const PropertyId transfer = collective_transfer();
    for (const Item& item : items) {
      decltype(cut(file, item)) work;
      comm::agree(comm, [&] { work = cut(file, item); });
      work.pieces.resize(std::size_t(comm.max(Index(work.pieces.size()))));  // as many collective calls on every rank
      for (const auto& piece : work.pieces) comm::agree(comm, [&] { work.move(direction, piece, transfer); });
    }
    close_collectively(std::move(file), seen.path, comm);
  };
  if (direction == Direction::read) {
    while_unchanged(seen, comm, move_all);
  } else {
    move_all();
  }
}

}  // namespace annulus::io
