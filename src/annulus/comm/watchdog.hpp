// Ends a run whose ranks wait for each other in vain, and says who waits where for whom.
//
// A run is stalled when for the time-out NO rank of it has made progress: no request completed anywhere and no kernel
// advanced. A rank that waits only because another one still computes (an hour, if it must) is not stalled: ranks that
// compute say so on a board in rank 0's memory (board.hpp) that waiting ranks read. Time counts in small steps between
// two looks at the clock, so a job that was suspended as a whole does not look stalled when it goes on.
//
// Who notices:
//   a wait for MPI    the waiting thread itself, which tests its requests again and again (requests.hpp). It writes the
//                     diagnosis, raises the alarm on the board, gives the others a moment to write theirs, and ends the
//                     job by MPI_Abort(4).
//   a call that       the watchdog's thread, when the thread that owns MPI gave no sign of life: inside HDF5, or inside
//   does not return   an MPI call that hangs. It makes no MPI call (MPI runs FUNNELED, and its owner may hold MPI's
//                     locks): it writes the diagnosis and ends this process by _exit(4), on which the launcher ends
//                     the others. So one single file operation must not take longer than the time-out either.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "annulus/comm/board.hpp"
#include "annulus/comm/requests.hpp"

namespace annulus::comm {

// All of these are for the thread that owns MPI, and do next to nothing while no watchdog is there.

/// Names what this rank is about, for the diagnosis: "reading", "hop 2 of 3". Nests.
class Place {
 public:
  explicit Place(std::string name);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
};

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
};

/// This rank is inside a call that waits for others by its own means while this lives.
class Blocked {
 public:
  Blocked();
  ~Blocked();
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;
};

/// This rank got on: a request completed or the kernel advanced. Cheap enough for every poll.
void watchdog_progress();
/// A watchdog is there.
bool is_watched();

/// One per process at most, made and destroyed by all ranks together.
class Watchdog {
 public:
  /// `timeout_seconds` > 0. With one rank there is nobody to wait for, and nothing is watched. Where MPI makes no
  /// windows, rank 0 warns on stderr: waits are then not ended, since nobody knows whether another rank still computes.
  Watchdog(const Communicator& comm, double timeout_seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Ends the watching early; collective. For errors that every rank knows of: by itself, an exception that destroys
  /// the watchdog is taken for one rank's own, and MPI's window is then left as it is.
  void end();

 private:
  friend class Waiting;
  friend void watchdog_progress();

  void begin_wait();
  void look();
  void progress();
  void read_board();
  [[noreturn]] void give_up();
  [[noreturn]] void join_alarm();
  void linger(double seconds);
  void guard();
  void write_diagnosis(const std::string& reason) const;

  const int rank_;
  const double timeout_;
  const double interval_;       // s between two uses of the board
  std::optional<Board> board_;  // none with one rank, or where MPI makes no windows
  double last_look_ = 0, next_board_ = 0, idle_ = 0;
  Index progress_seen_ = 0;
  bool alarmed_ = false;

  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace annulus::comm
