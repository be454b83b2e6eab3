// Ends a stalled run, whose ranks wait for each other, and says who waits where for whom.
//
// A run is stalled when for the time-out NO rank of it has made progress: no request completed anywhere, no call
// returned, and no rank worked. A rank that waits only because another one still computes (an hour, if it must) is not
// stalled. Time counts in small steps between two looks at the clock, so a job that was suspended as a whole does not
// look stalled when it goes on.
//
// How a rank that waits knows that another one works (heartbeat.hpp): that one counts progress at its polls
// (watchdog_progress()) in rank 0's memory, which waiting ranks read; and its guard counts beats in its own memory,
// also where it does not poll. Waiting ranks read rank 0's beats with its progress. When rank 0 waits, and a quarter of
// the time-out has passed without progress, it reads the beats of all others, and counts as progress that it found one.
//
// Who notices:
//   a wait for MPI    the waiting thread itself, which tests its requests again and again (requests.hpp). It writes the
//                     diagnosis, raises the alarm, gives the others a moment to write theirs, and ends the job by
//                     MPI_Abort(4).
//   a call that       the guard's thread (guard.hpp), when the thread that owns MPI gave no sign of life: inside HDF5
//   or does not return   the file system, or inside an MPI call that hangs (activity.hpp). So one single file
//                     operation must not take longer than the time-out either.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/comm/heartbeat.hpp"
#include "annulus/comm/requests.hpp"

namespace annulus::comm {

/// This rank waits for MPI while this lives.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// What it waits for, as often as that changes.
  void about(const std::vector<Outstanding>& outstanding) const;
  /// To be called again and again; does not return when the time is over.
  void look() const;

 private:
  Doing before_;
};

/// A watchdog is there.
bool is_watched();

/// One per process at most, made and destroyed by all ranks together. Its guard has been there since MPI started.
class Watchdog {
 public:
  /// Sets the stall timeout, > 0, until its end. With one rank there is no other to wait for, and only the guard
  /// watches. Where MPI makes no windows, rank 0 warns on stderr: waits are then not ended, since it is not known
  /// whether another rank still computes.
  Watchdog(const Communicator& comm, double timeout_seconds);
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
  std::optional<Heartbeat> heartbeat_;  // none with one rank, or where MPI makes no windows
  double last_look_ = 0, next_read_ = 0, idle_ = 0;
  Index progress_seen_ = 0, beat_seen_ = 0;
  double next_listening_ = 0;  // when this long idle, 0: at the first chance; rank 0's
  double allowed_ = 0;         // the time-out that idle_ counts for
  bool alarmed_ = false;
};

}  // namespace annulus::comm
