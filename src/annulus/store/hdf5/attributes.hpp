// Reads and writes attributes that hold text or numbers.
// Included by .cpp files of this room and of report only.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// Reads the texts in an attribute: one or an array, with fixed or variable length, because h5py, netCDF and HDF5's own
/// tools write different kinds. Empty if there is no such attribute, or if it holds no text.
std::vector<std::string> texts_of(hid_t object, const std::string& attribute);

/// Reads the numbers in an attribute: one or an array, of any numeric type. Empty if there is no such attribute. Throws
/// Error(failure) if it holds something else; `where` names the object.
std::vector<double> numbers_of(hid_t object, const std::string& attribute, const std::string& where);

/// For each axis of a dataset, the last part of the name of its dimension scale; "" for an axis without a scale. Reads
/// the attribute DIMENSION_LIST, which is a list of references. Empty if there is no such attribute.
std::vector<std::string> scale_names_of(hid_t dataset);

/// Adds an attribute. `value` has the type `type` in memory, too.
void add_attribute(hid_t object, const std::string& attribute, hid_t type, hid_t space, const void* value);
/// Adds an attribute with a text in UTF-8 of variable length.
void add_text(hid_t object, const std::string& attribute, const std::string& text);

}  // namespace annulus::store
