// How a dataset is stored. Included by .cpp files of this room only.
#pragma once

#include <string>

#include "annulus/io/hdf5_support.hpp"

namespace annulus::io {

/// Byte of the file at which the numbers of a dataset lie one after another, as this program keeps them in memory;
/// DatasetInfo::by_hdf5 where they do not. `where` names the dataset. Throws Error(failure) where nobody has written a
/// single number of it: HDF5 would return zeros, which look like numbers that somebody computed.
Index offset_of(hid_t dataset, const std::string& where, NumberType type);

}  // namespace annulus::io
