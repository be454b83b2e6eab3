// HDF5 files as no sane program writes them: what kind of object stands under each name, its type, shape, storage,
// filters, fill value and attributes are drawn. A file in which all draws are zero is a right one.
#pragma once

#include <string>

#include "fuzz.hpp"

namespace annulus::fuzz {

/// Makes in.h5 in the folder, and beside it beside.h5, to which links and virtual datasets lead; returns its path.
std::string make_hdf5_file(Draw& draw);

}  // namespace annulus::fuzz
