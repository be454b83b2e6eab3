// Reads and writes attributes that hold text or numbers, and HDF5 dimension scales. Dimension scales name the axes of
// datasets in the form that h5py, netCDF and xarray read.
// Include this file only in .cpp files of store and report.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// Reads the texts in an attribute: one text or an array, of fixed or variable length, because h5py, netCDF and HDF5's
/// own tools write different kinds. Empty if the attribute does not exist, or holds no text. Throws Error(failure).
std::vector<std::string> texts_of(hid_t object, const std::string& attribute);

/// Reads the numbers in an attribute: one number or an array, of any numeric type. Empty if there is no such attribute.
/// Throws Error(failure) if the attribute holds something else, or nothing; `where` names the object.
std::vector<double> numbers_of(hid_t object, const std::string& attribute, const std::string& where);

/// Returns, for each axis of a dataset, the last part of the name of its dimension scale; "" for an axis without a
/// scale. Reads the attribute DIMENSION_LIST, which is a list of references. Empty if there is no such attribute.
std::vector<std::string> scale_names_of(hid_t dataset);

/// Adds an attribute. `type` is the type of `value` in the file and in memory. `space`: its extents.
void add_attribute(hid_t object, const std::string& attribute, hid_t type, hid_t space, const void* value);
/// Adds an attribute with a text in UTF-8 of variable length.
void add_text(hid_t object, const std::string& attribute, const std::string& text);

// dimension_scales.cpp

/// The words of a text of axis names: "batch", "sequence" for "batch sequence".
std::vector<std::string> words_of(const std::string& text);

/// A dataset, its extents and the names of its axes, such as (1, 1024, 12, 32) and "batch sequence head dim".
struct NamedAxes {
  std::string dataset;  ///< path from the argument `parent` of add_dimension_scales()
  std::vector<Index> extents;
  std::string names;  ///< one word for each axis
};

/// Makes one scale for every axis name in a group, and attaches it to the datasets that have the axis. A scale only
/// gives an axis a length and a name. It has space for one byte for each index, but no coordinates are written.
/// Throws an internal error if two datasets of a group have axes of the same name but different lengths. Call it on one
/// rank. Worked example: dq (1, 8, 4, 16) has the axes "batch sequence head dim", and dk (1, 8, 2, 16) has the axes
/// "batch sequence kv_head dim". The group gets the scales batch (length 1), sequence (8), head (4), kv_head (2) and
/// dim (16).
void add_dimension_scales(hid_t parent, const std::vector<NamedAxes>& datasets);

/// True if the object is a scale without coordinates (it holds no numbers), made by this program or by netCDF.
bool is_bare_scale(hid_t object);

}  // namespace annulus::store
