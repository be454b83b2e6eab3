#include "annulus/library/version.hpp"

#include <fmt/format.h>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/version.hpp"

namespace annulus {

std::string library_version() { return version; }
std::string library_commit() { return git_commit; }

std::string library_description() {
  return fmt::format("annulus {} ({}), Kokkos {} ({}), instruction set {}, {}", version, git_commit,
                     core::kokkos_version(), core::kokkos_backends(), kernels::host_instruction_set(),
                     ANNULUS_HAS_MPI ? "with MPI" : "without MPI");
}

}  // namespace annulus
