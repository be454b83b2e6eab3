// Filters of an input that are no part of HDF5: plugins, which are programs of somebody else.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/inspected_file.hpp"

namespace annulus::store {

/// "32015 (zstd)", as the file names it, of every filter of its datasets that HDF5 loads as a plugin, each once. On
/// this rank alone. Throws Error(failure).
std::vector<std::string> filter_plugins_of(const InspectedFile& file);

}  // namespace annulus::store
