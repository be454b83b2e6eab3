// All that is read of an HDF5 file which somebody else made: as an input, as a layer's, as a result or a checkpoint.
#pragma once

#include <string>

#include "fuzz.hpp"

namespace annulus::fuzz {

/// `draw` chooses which datasets a run file names. Files that are accepted are read whole, and checked.
void read_hdf5(const std::string& path, Draw& draw);

}  // namespace annulus::fuzz
