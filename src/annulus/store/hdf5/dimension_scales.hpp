// HDF5 dimension scales: names of axes as h5py, netCDF and xarray know them.
// Included by .cpp files of this room and of report only.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// A dataset and what its axes are called: (1, 1024, 12, 32) and "batch sequence head dim".
struct NamedAxes {
  std::string dataset;  ///< its name, from `parent` on
  std::vector<Index> extents;
  std::string names;  ///< a word for each axis
};

/// Makes a scale for every name of an axis, beside the datasets that have such an axis, and attaches it to them. A
/// scale says how long an axis is and what it is called: it holds no coordinates, takes a byte for each entry of the
/// axis, and nothing is written there. Datasets that lie in one group must agree on the length of an axis (an internal
/// error). On one rank alone. Throws Error(failure).
/// Worked example: dq (1, 8, 4, 16) "batch sequence head dim" and dk (1, 8, 2, 16) "batch sequence kv_head dim" get the
/// scales batch (1), sequence (8), head (4), kv_head (2) and dim (16).
void add_dimension_scales(hid_t parent, const std::vector<NamedAxes>& datasets);

/// The object is such a scale, of this program or of netCDF, and not a dataset with numbers.
bool is_bare_scale(hid_t object);

}  // namespace annulus::store
