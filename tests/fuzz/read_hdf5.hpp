// Reads an HDF5 file of unknown origin in every way: as an input, as a layer's input, as a result, as a checkpoint.
#pragma once

#include <string>

#include "fuzz.hpp"

namespace annulus::fuzz {

/// `draw` chooses which datasets a run file names. Files that are accepted are read completely, and checked.
void read_hdf5(const std::string& path, Draw& draw);

}  // namespace annulus::fuzz
