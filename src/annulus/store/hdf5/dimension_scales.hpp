// HDF5 dimension scales: the names of axes, in the form that h5py, netCDF and xarray read.
// Included by .cpp files of this room and of report only.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// A dataset and the names of its axes, such as (1, 1024, 12, 32) and "batch sequence head dim".
struct NamedAxes {
  std::string dataset;  ///< path from `parent`
  std::vector<Index> extents;
  std::string names;  ///< one word for each axis
};

/// Makes one scale for every axis name in a group, and attaches it to the datasets that have the axis. A scale only
/// gives an axis a length and a name. It holds no coordinates; it has one byte for each entry, and none is written. If
/// datasets in one group differ in an axis' length, that is an internal error. On one rank. Throws Error(failure).
/// Worked example: dq (1, 8, 4, 16) has the axes "batch sequence head dim", dk (1, 8, 2, 16) "batch sequence kv_head
/// dim". The group gets the scales batch (length 1), sequence (8), head (4), kv_head (2)
/// and dim (16).
void add_dimension_scales(hid_t parent, const std::vector<NamedAxes>& datasets);

/// True if the object is a scale without coordinates, made by this program or netCDF, and not a dataset with numbers.
bool is_bare_scale(hid_t object);

}  // namespace annulus::store
