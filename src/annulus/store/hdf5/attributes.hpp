// Attributes that hold text or numbers, read and written.
// Included by .cpp files of this room and of report only.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// Texts in an attribute of an object, one or an array, of fixed or any length: h5py, netCDF and HDF5's own tools each
/// write another kind. Empty where there is no such attribute or it holds no text.
std::vector<std::string> texts_of(hid_t object, const std::string& attribute);

/// Numbers in an attribute of an object, one or an array, of any type of numbers. Empty where there is no such
/// attribute. Throws Error(failure) where it holds something else; `where` names the object.
std::vector<double> numbers_of(hid_t object, const std::string& attribute, const std::string& where);

/// Last parts of the names of the dimension scales attached to a dataset, axis by axis, "" where an axis has none: the
/// attribute DIMENSION_LIST, lists of references. Empty where there is none.
std::vector<std::string> scale_names_of(hid_t dataset);

/// Adds an attribute; `value` is of `type`, in memory as in the file.
void add_attribute(hid_t object, const std::string& attribute, hid_t type, hid_t space, const void* value);
/// Adds an attribute that holds a text of any length, UTF-8.
void add_text(hid_t object, const std::string& attribute, const std::string& text);

}  // namespace annulus::store
