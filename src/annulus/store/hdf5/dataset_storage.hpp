// Finds out how a dataset is stored, in which files, and with which filters (such as compression).
// Include this file only in .cpp files of store.
#pragma once

#include <set>
#include <string>

#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/inspected_file.hpp"

namespace annulus::store {

/// Throws Error(failure) if netCDF has packed the numbers (attributes scale_factor, add_offset), because the stored
/// numbers are then not the values.
void refuse_packed(hid_t dataset, const std::string& where);

/// Throws Error(failure) if no number was ever written, because HDF5 would return fill values, often 0, which look like
/// computed numbers. `where` names the dataset. Compact, virtual and externally stored datasets are not checked.
void refuse_unwritten(hid_t dataset, const std::string& where);

/// Describes the chunks of a dataset that were never written, or the numbers of a virtual dataset that have no source:
/// "SUBJECT lacks 2 of its 8 chunks (never written): HDF5 reads them as 0". Empty if all was written, or before HDF5
/// 1.10.6. Throws Error(failure) with this text if HDF5 reads such numbers as anything but 0. But if `may_be_unread` is
/// true, these numbers may belong to rows that do not exist, and no error is thrown. `where` names the dataset. Call it
/// only when the file is first looked at, because counting a million chunks takes time.
std::string described_gaps(hid_t dataset, const std::string& where, const std::string& subject, bool may_be_unread);

/// Returns the byte of the file `path` at which the dataset's numbers begin. Returns DatasetInfo::by_hdf5 if the
/// numbers are not contiguous, are not little-endian, or are in another file. `where` names the dataset.
/// Throws Error(failure) if the numbers are packed, or if none was ever written.
Index offset_of(hid_t dataset, const std::string& path, const std::string& where, NumberType type);

/// The values of the attributes _FillValue and missing_value, and netCDF's usual fill value if HDF5 fills the dataset
/// with it. Throws Error(failure) if one of these attributes is not a number.
MissingValues missing_values_of(hid_t dataset, const std::string& where);

/// Throws Error(failure) if the dataset's extents or type have changed since `info` was read, because buffers were
/// allocated for the old extents and type.
void check_as_inspected(hid_t dataset, const std::string& where, const DatasetInfo& info);

// dataset_files.cpp

/// True if the dataset is not in the file `path`, but in another file to which links in `path` lead.
bool is_in_another_file(hid_t dataset, const std::string& path);

/// Adds to `others` every file other than `path` that the dataset needs: files with links on the way to the dataset,
/// sources of a virtual dataset (and their sources), and external raw storage. Throws Error(failure) if a source does
/// not exist or was never written, because HDF5 would read fill values instead. But of the blocks of a pattern
/// ("part_%b.h5"), only the first must exist. Returns the text for a warning if a part of the dataset, or of its
/// sources, was never written (see described_gaps()); otherwise an empty text.
std::string add_other_files(hid_t file, const std::string& path, const std::string& name, std::set<std::string>& others,
                            bool may_be_unread);

/// Call it after a dataset is opened and before it is read. Throws Error(failure) as add_other_files(), for example if
/// the dataset is virtual and contains itself, or if a file that it needs is missing, a FIFO, a device or too short.
void check_sources(hid_t file, const std::string& path, const std::string& name, hid_t dataset);

// filters.cpp

/// Returns the end of a message, which says which filters of a dataset HDF5 does not find, and what to do: "; it is
/// stored with HDF5 filter 32015 (zstd), ...". Empty if no filter is missing.
std::string missing_filters(hid_t dataset);

/// Those filters of a dataset that are not part of HDF5, such as "32015 (zstd)".
std::set<std::string> plugins_of(hid_t dataset);

/// Throws Error(failure), "WHERE cannot be read; ...", if a missing filter makes the first number unreadable. (A chunk
/// that a filter could not make smaller is stored without the filter, so some datasets can be read although a filter is
/// missing.) Not collective.
void check_filters(hid_t dataset, const std::string& where);

}  // namespace annulus::store
