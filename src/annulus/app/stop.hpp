// Signals: a batch system's warning before the time limit, a user's Ctrl-C, a launcher that ends the job.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Exit status of a run that was asked to stop: run again to continue, or to begin anew if nothing was saved.
inline constexpr int stopped_status = 75;

/// From now on, TERM, INT and HUP end this process with status 1, USR1 with 75. They print one line on stderr and
/// remove unfinished files. `consequence` ends the line: what is lost, and what to do. Signals that are ignored (nohup)
/// stay ignored. If the launcher passes a signal to all ranks, only rank 0 prints the line.
void end_on_signals(const comm::Communicator& comm, const std::string& consequence);

/// The same without the line, before there is a communicator: the launcher itself says which signal it passed on.
void end_on_signals_from_the_start();

/// Call it when the verb has finished and its message is printed: these signals then end the process with `status` and
/// no line. Launchers send TERM to ranks that are still ending when another rank has failed.
void end_quietly_on_signals(int status);

/// From now on SIGUSR1 and SIGTERM do not end the process but are noted. Launchers pass on USR1. Open MPI's mpirun
/// passes on TERM, too, but kills the ranks a second later, and returns 1 whatever they return. A batch system kills
/// ranks half a minute after TERM. So from TERM on, ranks wait for a dead rank at most `stall_seconds`
/// (comm/watchdog.hpp): then they still have time to say so and to remove their files.
void watch_for_stop(double stall_seconds);
/// The same, but if the work has not ended `seconds` after the signal, the process ends with stopped_status, and rank 0
/// prints `line`. For work that has already saved everything that it can save.
void watch_for_stop(const comm::Communicator& comm, double stall_seconds, unsigned seconds, const std::string& line);
/// True if this process has received USR1 or TERM. Ranks may receive it at different times: agree before you act on it.
bool stop_requested();

}  // namespace annulus::app
