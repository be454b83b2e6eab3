// Which files a dataset is made of. Included by .cpp files of this room only.
#pragma once

#include <hdf5.h>

#include <set>
#include <string>

namespace annulus::store {

/// Whether links lead from the file `path` to the dataset in another file: its bytes are not those of `path`.
bool is_in_another_file(hid_t dataset, const std::string& path);

/// Adds every file other than `path` that the dataset needs: those that links lead through, those of a virtual
/// dataset's sources (and of theirs), and external raw storage. Sources that do not exist are no file: HDF5 reads fill
/// values there. Throws Error(failure).
void add_other_files(hid_t file, const std::string& path, const std::string& name, std::set<std::string>& others);

/// Before a dataset is read that has been opened: throws Error(failure) where it is virtual and made of itself, or
/// where a FIFO or a device stands for a file of its numbers.
void check_sources(hid_t file, const std::string& path, const std::string& name, hid_t dataset);

}  // namespace annulus::store
