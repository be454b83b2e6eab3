// How a dataset is stored: its bytes, the files that it is made of, its filters. Included by .cpp files of this room
// only.
#pragma once

#include <set>
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

/// Whether links lead from the file `path` to the dataset in another file: its bytes are not those of `path`.
bool is_in_another_file(hid_t dataset, const std::string& path);

/// Adds every file other than `path` that the dataset needs: those that links lead through, those of a virtual
/// dataset's sources (and of theirs), and external raw storage. Sources that do not exist are no file: HDF5 reads fill
/// values there. Throws Error(failure).
void add_other_files(hid_t file, const std::string& path, const std::string& name, std::set<std::string>& others);

/// What is missing here to read a dataset, and what to do about it, for the end of a message: "; it is stored with
/// HDF5 filter 32015 (zstd), ...". Empty where all its filters are there.
std::string missing_filters(hid_t dataset);

/// Throws Error(failure), "WHERE cannot be read; ...", where filters are missing and so its first number cannot be
/// read. (A chunk that a filter could not make smaller is stored without: such a dataset can be read all the same.) On
/// this rank alone.
void check_filters(hid_t dataset, const std::string& where);

}  // namespace annulus::store
