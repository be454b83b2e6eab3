#include "annulus/library/threads.hpp"

#include "annulus/core/kokkos_compat.hpp"

namespace annulus {

static_assert(most_threads == core::most_kokkos_threads);

int threads() { return core::host_threads(); }
void limit_threads(int most) { core::limit_host_threads(most); }

}  // namespace annulus
