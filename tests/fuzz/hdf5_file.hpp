// HDF5 files that no ordinary program writes: the kind of object under each name, its type, shape, storage, filters,
// fill value and attributes are drawn. If all draws are zero the file is a valid input.
#pragma once

#include <string>

#include "fuzz.hpp"

namespace annulus::fuzz {

/// Makes in.h5 in the folder, and beside.h5, to which links and virtual datasets lead; returns the path of in.h5.
std::string make_hdf5_file(Draw& draw);

}  // namespace annulus::fuzz
