// Leaks, in builds with the address sanitizer (the asan preset); elsewhere nothing happens.
//
// The sanitizer's own check when the process ends is of no use here, and the tests' environment switches it off: MPI
// has unloaded its plug-ins by then, and what these lost can no longer be told from what we lost.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace annulus::test {

#if defined(__SANITIZE_ADDRESS__)
/// While one lives, this thread's allocations may be lost: for what MPI forgets while it starts.
using LeaksExcused = __lsan::ScopedDisabler;
/// Ends the process with an error when memory was lost so far. Call it after the tests and before MPI ends.
inline void check_for_leaks() { __lsan_do_leak_check(); }
#else
struct LeaksExcused {
  LeaksExcused() {}
};
inline void check_for_leaks() {}
#endif

}  // namespace annulus::test
