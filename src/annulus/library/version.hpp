// Which library a program was linked with.
#pragma once

#include <string>

namespace annulus {

/// "0.1.0".
std::string library_version();
/// The commit that it was built from; "unknown" where it was built from no repository.
std::string library_commit();
/// The whole of it on one line: version, Kokkos and its back ends, MPI, instruction set.
std::string library_description();

}  // namespace annulus
