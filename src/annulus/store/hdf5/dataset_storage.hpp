// Finds out how a dataset is stored. Included by .cpp files of this room only.
#pragma once

#include <string>

#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/inspected_file.hpp"

namespace annulus::store {

/// Throws Error(failure) if netCDF has packed the numbers (attributes scale_factor, add_offset), because the stored
/// numbers are then not the values.
void refuse_packed(hid_t dataset, const std::string& where);

/// Throws Error(failure) if no number was ever written: HDF5 would return zeros, which look like computed numbers.
/// `where` names the dataset.
void refuse_unwritten(hid_t dataset, const std::string& where);

/// The byte of the file `path` at which the dataset's numbers begin. DatasetInfo::by_hdf5 if they are not contiguous,
/// differ from their form in memory, or are in another file. `where` names the dataset. Throws Error(failure) if the
/// numbers are packed, or if none was ever written.
Index offset_of(hid_t dataset, const std::string& path, const std::string& where, NumberType type);

/// The values of _FillValue and missing_value. Throws Error(failure) if one of these attributes is not a number.
MissingValues missing_values_of(hid_t dataset, const std::string& where);

/// Throws Error(failure) if the dataset's extents or type have changed since `info` was read: buffers were made for
/// the old ones.
void check_as_inspected(hid_t dataset, const std::string& where, const DatasetInfo& info);

}  // namespace annulus::store
