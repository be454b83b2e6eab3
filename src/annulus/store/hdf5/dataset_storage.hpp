// How a dataset is stored. Included by .cpp files of this room only.
#pragma once

#include <string>

#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/inspected_file.hpp"

namespace annulus::store {

/// Throws Error(failure) where netCDF packed the numbers (attributes scale_factor, add_offset): what is stored is not
/// what is meant.
void refuse_packed(hid_t dataset, const std::string& where);

/// Throws Error(failure) where not one number was ever written: HDF5 would return zeros, which look like numbers that
/// somebody computed. `where` names the dataset.
void refuse_unwritten(hid_t dataset, const std::string& where);

/// Byte of the file `path` at which the numbers of a dataset lie one after another, as this program keeps them in
/// memory; DatasetInfo::by_hdf5 where they do not, or in another file. `where` names the dataset. Throws Error(failure)
/// where the numbers are packed, or not one of them was ever written.
Index offset_of(hid_t dataset, const std::string& path, const std::string& where, NumberType type);

/// The numbers of _FillValue and missing_value. Throws Error(failure) where such an attribute holds no number.
MissingValues missing_values_of(hid_t dataset, const std::string& where);

/// Throws Error(failure) where extents or type of a dataset are others than those that were seen, for which buffers
/// were made.
void check_as_inspected(hid_t dataset, const std::string& where, const DatasetInfo& info);

}  // namespace annulus::store
