// How a dataset is stored. Included by .cpp files of this room only.
#pragma once

#include <string>

#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/inspected_file.hpp"

namespace annulus::store {

/// Byte of the file at which the numbers of a dataset lie one after another, as this program keeps them in memory;
/// DatasetInfo::by_hdf5 where they do not. `where` names the dataset. Throws Error(failure) where netCDF packed the
/// numbers (attributes scale_factor, add_offset), or nobody has written a single number of it: HDF5 would return zeros,
/// which look like numbers that somebody computed.
Index offset_of(hid_t dataset, const std::string& where, NumberType type);

/// Throws Error(failure) where extents or type of a dataset are others than those that were seen, for which buffers
/// were made.
void check_as_inspected(hid_t dataset, const std::string& where, const DatasetInfo& info);

}  // namespace annulus::store
