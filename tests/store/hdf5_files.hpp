// Helpers that make HDF5 files as other programs would: valid files and faulty ones.
#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "support/scratch.hpp"

namespace annulus::test {

/// Rank 0's scratch folder, known to all ranks. Rank 0 removes the folder when all ranks have reached the destructor.
class SharedFolder {
 public:
  explicit SharedFolder(const comm::Communicator& comm)
      : comm_(comm), folder_(make(comm)), path_(comm.broadcast(folder_ ? folder_->path() : "")) {}
  ~SharedFolder() { comm_.barrier(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  static std::unique_ptr<ScratchFolder> make(const comm::Communicator& comm) {
    return comm.is_root() ? std::make_unique<ScratchFolder>() : nullptr;
  }
  const comm::Communicator& comm_;
  std::unique_ptr<ScratchFolder> folder_;
  std::string path_;
};

/// Rank 0 does `work` on shared files while no other rank uses them: every rank waits before and after `work`. All
/// ranks must call this function.
template <class Work>
void on_root(const comm::Communicator& comm, Work&& work) {
  comm.barrier();
  if (comm.is_root()) work();
  comm.barrier();
}

/// Adds a dataset to a file, which is made if it does not exist. `data` has numbers of type `memory` (default: `type`);
/// if `data` is null, the dataset holds zeros. `chunk`: extents of the dataset's chunks; empty: the dataset is
/// contiguous. Call this on one rank only.
inline void add_dataset(const std::string& path, const std::string& name, hid_t type,
                        const std::vector<hsize_t>& extents, const void* data = nullptr, hid_t memory = -1,
                        const std::vector<hsize_t>& chunk = {}) {
  const bool there = std::filesystem::exists(path);
  const hid_t file = there ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                           : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(int(extents.size()), extents.data(), nullptr);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (!chunk.empty()) H5Pset_chunk(creation, int(extents.size()), chunk.data());
  H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);  // also if `data` is null, the dataset has space in the file
  const hid_t dataset = H5Dcreate2(file, name.c_str(), type, space, links, creation, H5P_DEFAULT);
  if (data != nullptr) H5Dwrite(dataset, memory < 0 ? type : memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Pclose(links);
  H5Sclose(space);
  H5Fclose(file);
}

/// Adds an attribute with these numbers, stored as `type`, to a dataset. Call this on one rank only.
inline void add_attribute(const std::string& path, const std::string& dataset, const std::string& name, hid_t type,
                          const std::vector<double>& values) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t count = values.size();
  const hid_t space = count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr);
  const hid_t attribute =
      H5Acreate_by_name(file, dataset.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_DOUBLE, values.data()), 0) << dataset << " " << name;
  H5Aclose(attribute);
  H5Sclose(space);
  H5Fclose(file);
}

/// The error that `work` throws; checks that all ranks throw the same. If there is no error, returns "" and fails the
/// test.
template <class Work>
std::string common_error(const comm::Communicator& comm, Work&& work) {
  std::string message;
  try {
    work();
  } catch (const comm::AgreedError& error) {
    message = error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not agreed: " << error.what();
    message = error.what();
  }
  EXPECT_FALSE(message.empty()) << "no error";
  for (const std::string& other : comm.gather_all(message)) EXPECT_EQ(other, message);
  return message;
}

}  // namespace annulus::test
