#include "annulus/io/together.hpp"

namespace annulus::io {

FileId open_together(const std::string& path, Direction direction, const comm::Communicator& comm) {
  quiet_hdf5();
  // A node that does not see the file is found here, where nobody waits inside a collective open.
  comm::agree(comm, [&] { check_openable(path, direction == Direction::write); });
  FileId file;
  comm::agree(comm, [&] {
    const PropertyId access(check_hdf5(H5Pcreate(H5P_FILE_ACCESS), "HDF5 file access"));
    check_hdf5(H5Pset_fapl_mpio(access, comm.handle(), MPI_INFO_NULL), "HDF5 over MPI");
    check_hdf5(H5Pset_all_coll_metadata_ops(access, true), "HDF5 collective metadata");
    const unsigned mode = direction == Direction::read ? H5F_ACC_RDONLY : H5F_ACC_RDWR;
    file = FileId(
        check_hdf5(comm::blocking("H5Fopen", H5Fopen, path.c_str(), mode, access), "{}: HDF5 cannot open it", path));
  });
  return file;
}

PropertyId transfer_together() {
  PropertyId transfer(check_hdf5(H5Pcreate(H5P_DATASET_XFER), "HDF5 transfer"));
  // Collective calls in which every rank moves its own rows: they are long contiguous stretches, which aggregators
  // would only copy once more. And aggregated writes lose errors: with Open MPI 4.1.4 on 3 and 4 ranks a write beyond
  // the file-size limit came back as a success on every rank.
  check_hdf5(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "HDF5 collective transfer");
  check_hdf5(H5Pset_dxpl_mpio_collective_opt(transfer, H5FD_MPIO_INDIVIDUAL_IO), "HDF5 individual transfer");
  return transfer;
}

void close_together(FileId file, const std::string& path, const comm::Communicator& comm) {
  comm::agree(comm, [&] { check_hdf5(file.close(), "{}: closing failed", path); });
}

}  // namespace annulus::io
