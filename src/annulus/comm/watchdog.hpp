// Ends a stalled run, in which ranks wait for each other, and prints which rank waits where for which rank.
//
// A run is stalled if during the time-out NO rank has made progress: no request completed, no call returned, and no
// rank worked. A run in which ranks wait because another rank computes, even for an hour, is not stalled. If much time
// passes between two readings of the clock, only a part of it counts. So a job that was suspended as a whole does not
// look stalled when it goes on.
//
// A waiting rank knows that another rank works (heartbeat.hpp), because the working rank changes the number `progress`
// in rank 0's memory at its polls (watchdog_progress()). The working rank's guard also counts beats in that rank's own
// memory, even if the rank does not poll. Waiting ranks read rank 0's `progress` and beats. If rank 0 waits, and an
// eighth of the time-out has passed without progress, rank 0 reads the beats of all other ranks. If one of these
// numbers has changed, rank 0 changes `progress`.
//
// What notices a stall:
//   a wait for MPI    the waiting thread itself, which tests its requests again and again (requests.hpp). It prints the
//                     diagnosis, raises the alarm, gives the other ranks a moment to print theirs, and ends the job by
//                     MPI_Abort(4).
//   a call that does  the guard's thread (guard.hpp), if the thread that owns MPI gave no sign of life. That thread may
//   not return        be inside HDF5 or the file system, or inside an MPI call that hangs (activity.hpp). So a single
//                     file operation must not take longer than the time-out either.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/comm/heartbeat.hpp"
#include "annulus/comm/requests.hpp"

namespace annulus::comm {

/// While an object of this class exists, this rank counts as waiting for MPI.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// Sets what this rank waits for. Call this function whenever the rank waits for something else.
  void about(const std::vector<Outstanding>& outstanding) const;
  /// Must be called again and again; does not return if the run has stalled.
  void look() const;

 private:
  Doing before_;
};

/// True if a watchdog of several ranks exists.
bool is_watched();

/// A process has at most one Watchdog. All ranks construct it together, and destroy it together. The guard must exist
/// already.
class Watchdog {
 public:
  /// Sets the time-out, > 0, and its source until the watchdog is destroyed. With one rank there is no other rank to
  /// wait for, and only the guard watches. If MPI cannot make windows, rank 0 warns on stderr: stalled waits are then
  /// not ended, because no rank knows whether another rank still computes.
  Watchdog(const Communicator& comm, double timeout_seconds, const char* source = "distribution.stall_timeout");
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  friend class Waiting;
  friend void watchdog_progress();

  void begin_wait();
  void start_over();
  void look();
  void progress();
  void read_heartbeat();
  void listen();
  [[noreturn]] void abort_stalled();
  [[noreturn]] void join_alarm();
  void linger(double seconds);

  const Communicator& comm_;
  const double timeout_before_;
  const char* const source_before_;
  std::optional<Heartbeat> heartbeat_;               // none with one rank, or if MPI cannot make windows
  double last_look_ = 0, next_read_ = 0, idle_ = 0;  // s; idle_: how long no rank has made progress
  Index progress_seen_ = 0, beat_seen_ = 0;
  double next_listening_ = 0;  // the value of idle_ at which rank 0 next reads beats; 0: as soon as listen() allows
  double allowed_ = 0;         // the time-out with which idle_ is compared
  bool alarmed_ = false;
};

}  // namespace annulus::comm
