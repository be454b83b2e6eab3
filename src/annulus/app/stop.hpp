// Handles signals: a batch system's warning before the time limit, a user's Ctrl-C, a launcher that ends the job.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Exit status of a run that was asked to stop. The user can run it again, to continue or, if nothing was saved, to
/// begin anew.
inline constexpr int stopped_status = 75;

/// From now on, TERM, INT and HUP end this process with status 1, and USR1 with 75. The handler prints one line on
/// stderr and removes unfinished files. The line ends with `consequence`: what is lost, and what to do. Ignored signals
/// (nohup) stay ignored. If the launcher passes a signal to all ranks, only rank 0 prints the line.
void end_on_signals(const comm::Communicator& comm, const std::string& consequence);

/// Does the same as end_on_signals(), for the time before there is a communicator. With a launcher, prints no line,
/// because the launcher says which signal it passed on.
void end_on_signals_from_the_start(bool has_launcher);

/// From now on, USR1 and TERM do not end the process. They make stop_requested() return true. Launchers pass USR1 on to
/// the ranks. Open MPI's mpirun passes TERM on, too, but kills the ranks a second later, and returns 1 whatever status
/// the ranks return. A batch system kills ranks half a minute after TERM. Therefore, after TERM, a rank waits at most
/// `stall_seconds` for a dead rank (comm/watchdog.hpp), so that it has time to print an error and to remove its files.
void watch_for_stop(double stall_seconds);

struct LimitOfStop {
  unsigned seconds;
  std::string line;              ///< what rank 0 prints when this limit ends it
  bool only_after_term = false;  ///< true: no limit after USR1, which job scripts send while there is enough time
};
/// The same, but ends the process with stopped_status if the process still runs limit.seconds after the signal. Use it
/// for work that saves each result as soon as the result is finished: such work has nothing left to save at the end.
void watch_for_stop(const comm::Communicator& comm, double stall_seconds, const LimitOfStop& limit);
/// True after USR1 or TERM. Ranks may receive a signal at different times, so they must agree before they act on it.
bool stop_requested();

}  // namespace annulus::app
