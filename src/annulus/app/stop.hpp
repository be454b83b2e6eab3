// Requests to stop from outside: a batch system's warning before the time is over.
#pragma once

namespace annulus::app {

/// Exit status of work that was stopped on request after saving: run again to continue.
inline constexpr int stopped_status = 75;

/// From now on SIGUSR1 and SIGTERM are noted instead of ending the process. Launchers pass USR1 on. TERM that goes to
/// Open MPI's mpirun reaches the ranks too, but it kills them a second later, and returns 1 whatever they return.
void watch_for_stop();
/// One of them has come to this process. Ranks may hear of it at different times: agree before acting on it.
bool stop_requested();

}  // namespace annulus::app
