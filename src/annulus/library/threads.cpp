#include "annulus/library/threads.hpp"

#include "annulus/core/kokkos_compat.hpp"

namespace annulus {

int threads() { return core::host_threads(); }
void limit_threads(int most) { core::limit_host_threads(most); }

}  // namespace annulus
