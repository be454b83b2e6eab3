// Filters of an input file that are not part of HDF5: plugins, which are programs of third parties.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/inspected_file.hpp"

namespace annulus::store {

/// Names the filters of the file's datasets that HDF5 loads as plugins, each once: "32015 (zstd)", with the name from
/// the file. Call it on one rank. Throws Error(failure).
std::vector<std::string> filter_plugins_of(const InspectedFile& file);

}  // namespace annulus::store
