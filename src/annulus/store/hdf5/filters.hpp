// Filters, such as compression, that datasets are stored with. Included by .cpp files of this room only.
#pragma once

#include <set>
#include <string>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// Which filters are missing to read a dataset, and what to do, as the end of a message: "; it is stored with HDF5
/// filter 32015 (zstd), ...". Empty if no filter is missing.
std::string missing_filters(hid_t dataset);

/// The filters of a dataset that are not part of HDF5, such as "32015 (zstd)".
std::set<std::string> plugins_of(hid_t dataset);

/// Throws Error(failure), "WHERE cannot be read; ...", if a missing filter makes the first number unreadable. (A chunk
/// that a filter could not make smaller is stored without the filter, so some datasets can be read although a filter is
/// missing.) Local.
void check_filters(hid_t dataset, const std::string& where);

}  // namespace annulus::store
