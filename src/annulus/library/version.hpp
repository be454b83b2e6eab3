// The version of the library that a program was linked with.
#pragma once

#include <string>

// The version of these headers for the preprocessor: 0.1.0 is 0 * 10000 + 1 * 100 + 0.
#define ANNULUS_VERSION_MAJOR 0
#define ANNULUS_VERSION_MINOR 1
#define ANNULUS_VERSION_PATCH 0
#define ANNULUS_VERSION (ANNULUS_VERSION_MAJOR * 10000 + ANNULUS_VERSION_MINOR * 100 + ANNULUS_VERSION_PATCH)

namespace annulus {

/// Returns "0.1.0", for example.
std::string library_version();
/// Returns the commit that the library was built from; "unknown" if it was not built in a repository.
std::string library_commit();
/// Returns everything on one line: version, commit, Kokkos and its back ends, instruction set, MPI.
std::string library_description();

}  // namespace annulus
