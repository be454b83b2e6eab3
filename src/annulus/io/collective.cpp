#include "annulus/io/collective.hpp"

#include "annulus/io/filters.hpp"
#include "annulus/io/finite.hpp"

namespace annulus::io {

using core::fail;

Target open_target(hid_t file, const SeenFile& seen, const std::string& name) {
  const DatasetInfo& info = seen.at(name);
  Target target{seen.path, name, info, open_dataset(file, seen.path, name), memory_type(info.type)};
  const TypeId type(check_hdf5(H5Dget_type(target.dataset), "{} has no type", target.where()));
  const std::vector<Index> extents = extents_of(target.dataset);
  if (extents != info.extents || number_type_of(type) != info.type) {
    fail(core::ErrorKind::failure, "{} is {} ({}), it was {} ({}) when the run looked at it first", target.where(),
         describe_type(type), fmt::join(extents, ", "), name_of(info.type), fmt::join(info.extents, ", "));
  }
  return target;
}

SpaceId space_of(const std::vector<Index>& extents) {
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  return SpaceId(check_hdf5(H5Screate_simple(int(sizes.size()), sizes.data(), nullptr), "HDF5 extents"));
}

SpaceId stored_space(const Target& target) {
  SpaceId stored(check_hdf5(H5Dget_space(target.dataset), "HDF5 file space"));
  check_hdf5(H5Sselect_none(stored), "HDF5 selection");
  return stored;
}

void move_selected(const Target& target, Direction direction, hid_t stored, hid_t memory, void* host, hid_t transfer) {
  char nothing = 0;  // HDF5 wants an address from ranks without numbers, too
  if (host == nullptr) host = &nothing;
  if (direction == Direction::write) {
    check_hdf5(comm::blocking("H5Dwrite", H5Dwrite, target.dataset, target.type, memory, stored, transfer, host),
               "{}: writing {} failed", target.path, target.name);
    return;
  }
  if (comm::blocking("H5Dread", H5Dread, target.dataset, target.type, memory, stored, transfer, host) >= 0) return;
  const std::string reason = hdf5_reason();
  fail(core::ErrorKind::failure, "{}: reading {} failed{}{}", target.path, target.name, reason,
       missing_filters(target.dataset));
}

void check_range(const Target& target, NumberType from, const void* converted, Index count) {
  if (bytes_of(target.info.type) >= bytes_of(from)) return;
  if (!find_non_finite(converted, *target.info.type.dtype(), count)) return;
  fail(core::ErrorKind::failure,
       "{} has numbers beyond the range of {}, expected output.type: auto, which keeps them as {}", target.where(),
       name_of(target.info.type), name_of(from));
}

FileId open_collectively(const SeenFile& seen, Direction direction, const comm::Communicator& comm) {
  const std::string& path = seen.path;
  quiet_hdf5();
  // A node that does not see the file is found here, where no rank waits inside a collective open.
  comm::agree(comm, [&] { check_openable(path, direction == Direction::write); });
  FileId file;
  comm::agree(comm, [&] {
    const PropertyId access(check_hdf5(H5Pcreate(H5P_FILE_ACCESS), "HDF5 file access"));
    const comm::HintsInfo hints(seen.hints);
    check_hdf5(H5Pset_fapl_mpio(access, comm.handle(), hints.handle()), "HDF5 over MPI");
    check_hdf5(H5Pset_all_coll_metadata_ops(access, true), "HDF5 collective metadata");
    const unsigned mode = direction == Direction::read ? H5F_ACC_RDONLY : H5F_ACC_RDWR;
    file = FileId(
        check_hdf5(comm::blocking("H5Fopen", H5Fopen, path.c_str(), mode, access), "{}: HDF5 cannot open it", path));
  });
  return file;
}

PropertyId collective_transfer() {
  PropertyId transfer(check_hdf5(H5Pcreate(H5P_DATASET_XFER), "HDF5 transfer"));
  // Collective calls in which every rank moves its own rows: they are long contiguous ranges, which aggregators
  // would only copy once more. And aggregated writes lose errors: with Open MPI 4.1.4 on 3 and 4 ranks a write beyond
  // the file-size limit came back as a success on every rank.
  check_hdf5(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "HDF5 collective transfer");
  check_hdf5(H5Pset_dxpl_mpio_collective_opt(transfer, H5FD_MPIO_INDIVIDUAL_IO), "HDF5 individual transfer");
  return transfer;
}

void close_collectively(FileId file, const std::string& path, const comm::Communicator& comm) {
  comm::agree(comm, [&] { check_hdf5(file.close(), "{}: closing failed", path); });
}

}  // namespace annulus::io
