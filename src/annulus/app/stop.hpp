// Signals from outside: a batch system's warning before the time is over, a user's Ctrl-C, a launcher's end.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Exit status of work that was stopped on request: run again to continue, or to begin again where nothing is saved.
inline constexpr int stopped_status = 75;

/// From now on TERM, INT and HUP end this process with status 1, USR1 with 75, and one line on stderr, and the files
/// that it makes are removed. `consequence` ends the line: what is lost, and what to do. Signals that are ignored
/// (nohup) stay so. A signal that the launcher hands to all ranks is told by rank 0 alone.
void end_on_signals(const comm::Communicator& comm, const std::string& consequence);

/// The same without a word, before there is a communicator: launchers say which signal they passed on.
void end_on_signals_from_the_start();

/// The verb is through, and its message is out: from now on those signals end this process with `status`, without a
/// word. Launchers send TERM to ranks that are still ending when another one has ended with an error.
void end_quietly_on_signals(int status);

/// From now on SIGUSR1 and SIGTERM are noted instead of ending the process. Launchers pass USR1 on. TERM that goes to
/// Open MPI's mpirun reaches the ranks too, but it kills them a second later, and returns 1 whatever they return. A
/// batch system kills half a minute after TERM: from then on ranks that wait for one that is dead wait `stall_seconds`
/// at most (comm/watchdog.hpp), so that they say so and leave nothing behind.
void watch_for_stop(double stall_seconds);
/// The same; but where the work has not come to its end `seconds` after the signal, the process ends with
/// stopped_status and one line of rank 0: for work that has saved all that it can save before.
void watch_for_stop(const comm::Communicator& comm, double stall_seconds, unsigned seconds, const std::string& line);
/// One of them has come to this process. Ranks may hear of it at different times: agree before acting on it.
bool stop_requested();

}  // namespace annulus::app
