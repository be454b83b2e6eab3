// Does MPI move device memory? Tried in a process of its own.
#pragma once

#include <string>

namespace annulus::comm {

/// Starts this program again with the argument `word`, outside the launcher's job, and waits for it. Empty when it
/// ended with status 0, else what happened: "ended with status 1", "was killed by signal 11", "took more than 60 s".
std::string run_self_alone(const char* word, double patience_seconds);

}  // namespace annulus::comm
