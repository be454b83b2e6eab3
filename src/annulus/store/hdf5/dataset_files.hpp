// Finds the files that a dataset is made of. Included by .cpp files of this room only.
#pragma once

#include <hdf5.h>

#include <set>
#include <string>

namespace annulus::store {

/// Whether links lead from the file `path` to a dataset in another file, so that its bytes are not in `path`.
bool is_in_another_file(hid_t dataset, const std::string& path);

/// Adds every file other than `path` that the dataset needs: files that links lead through, sources of a virtual
/// dataset (and their sources), and external raw storage. Sources that do not exist are not added: HDF5 reads fill
/// values instead. Throws Error(failure).
void add_other_files(hid_t file, const std::string& path, const std::string& name, std::set<std::string>& others);

/// Call it after a dataset is opened and before it is read. Throws Error(failure) if the dataset is virtual and
/// contains itself, or if a file that it needs is a FIFO or a device.
void check_sources(hid_t file, const std::string& path, const std::string& name, hid_t dataset);

}  // namespace annulus::store
