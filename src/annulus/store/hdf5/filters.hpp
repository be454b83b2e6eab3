// Compression and other filters that datasets are stored with. Included by .cpp files of this room only.
#pragma once

#include <set>
#include <string>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// What is missing here to read a dataset, and what to do about it, for the end of a message: "; it is stored with
/// HDF5 filter 32015 (zstd), ...". Empty where all its filters are there.
std::string missing_filters(hid_t dataset);

/// Filters of a dataset that are no part of HDF5, "32015 (zstd)".
std::set<std::string> plugins_of(hid_t dataset);

/// Throws Error(failure), "WHERE cannot be read; ...", where filters are missing and so its first number cannot be
/// read. (A chunk that a filter could not make smaller is stored without: such a dataset can be read all the same.) On
/// this rank alone.
void check_filters(hid_t dataset, const std::string& where);

}  // namespace annulus::store
