// Finds leaks in builds with the address sanitizer (the asan preset); does nothing in other builds.
//
// The sanitizer's own check at the end of the process does not help, because by then MPI has unloaded its plug-ins, so
// that their leaks look like our own. The tests' environment switches this check off.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace annulus::test {

#if defined(__SANITIZE_ADDRESS__)
/// While an object lives, this thread's allocations may leak, because MPI leaks when it starts.
using LeaksExcused = __lsan::ScopedDisabler;
/// Ends the process with an error if memory has leaked so far. Call it after the tests and before MPI ends.
inline void check_for_leaks() { __lsan_do_leak_check(); }
#else
struct LeaksExcused {
  LeaksExcused() {}
};
inline void check_for_leaks() {}
#endif

}  // namespace annulus::test
