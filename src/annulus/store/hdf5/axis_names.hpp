// Which order of axes a tensor's dataset names itself. Included by .cpp files of this room only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/core/axes.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"

namespace annulus::store {

/// Names of a dataset's axes, as many as it has; empty where the file tells none. Where it tells them in several ways,
/// the first of these counts: the attribute `axes` (words in one text, as in files of this program), the attribute
/// DIMENSION_LABELS (h5py: dataset.dims[0].label = "batch"), names of dimension scales (netCDF, xarray).
std::vector<std::string> axis_names(hid_t dataset);

/// The order that these names mean, told by the axes of rows ("sequence", "seq_len", "s", "time" ...) and heads
/// ("head", "num_heads", "h" ...); nothing where they tell of neither. Throws Error(failure), `where` in front, for an
/// order that is neither bshd nor bhsd.
std::optional<core::AxisOrder> order_meant(const std::vector<std::string>& names, const std::string& where);

}  // namespace annulus::store
