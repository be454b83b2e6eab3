// Which version of the library a program was linked with.
#pragma once

#include <string>

// The version of these headers for the preprocessor: 0.1.0 is 0 * 10000 + 1 * 100 + 0.
#define ANNULUS_VERSION_MAJOR 0
#define ANNULUS_VERSION_MINOR 1
#define ANNULUS_VERSION_PATCH 0
#define ANNULUS_VERSION (ANNULUS_VERSION_MAJOR * 10000 + ANNULUS_VERSION_MINOR * 100 + ANNULUS_VERSION_PATCH)

namespace annulus {

/// "0.1.0".
std::string library_version();
/// The commit that the library was built from; "unknown" if it was not built in a repository.
std::string library_commit();
/// Everything on one line: version, Kokkos and its back ends, MPI, instruction set.
std::string library_description();

}  // namespace annulus
