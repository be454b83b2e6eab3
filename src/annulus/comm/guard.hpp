// The guard: a thread that watches the thread that owns MPI, from before MPI starts until after MPI ends. If the
// watched thread waits or is inside a call, and gives no sign of life during the whole time-out, the guard ends this
// process with _exit(4), and the launcher ends the other ranks. While the watched thread works, the guard counts
// beats, by which other ranks know that this rank works (heartbeat.hpp).
//
// The guard makes no MPI call, because MPI is started with MPI_THREAD_FUNNELED, which allows calls from one thread
// only, and because the watched thread may hold MPI's locks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace annulus::comm {

/// Exit status of a run that was ended because it stalled.
inline constexpr int stalled_status = 4;
/// The time-out if the user sets neither distribution.stall_timeout nor ANNULUS_STALL_TIMEOUT.
inline constexpr double default_stall_timeout = 300;  // s

/// From now on a run without any progress for this long counts as stalled. All ranks must set the same time-out.
/// `source` names the setting that gave the number; messages print this name. The string must never be freed.
void set_stall_timeout(double seconds, const char* source = "distribution.stall_timeout");
/// From now on the time-out of this rank is at most this long, even if set_stall_timeout() later sets a longer one.
/// Call this function when the process has received a signal to end, and will be killed if it does not end in time. A
/// signal handler may call this function.
void shorten_stall_timeout(double seconds);
/// Returns the time-out of this rank in seconds.
double stall_timeout();
/// From now on, if a signal ends this process, the exit status is `status`, and the handler prints no line
/// (app/stop.hpp). Call this function when the process has printed its last message, because launchers send TERM to the
/// ranks that still run when one rank has failed.
void set_final_status(int status);
/// Returns -1 before set_final_status(). A signal handler may call this function.
int final_status();
/// Returns what set the time-out: the source of set_stall_timeout(), or a signal ("shortened by SIGTERM").
const char* stall_timeout_source();
/// Returns the seconds between two checks of the watched thread and of other ranks: at most an eighth of the time-out.
double look_interval();
/// Returns how many of the `seconds` between two readings of the clock count towards the time-out. The result is
/// limited, because the job may have been suspended between the readings.
double counted(double seconds);

/// Owns the guard's thread; at most one Guard per process. If the thread cannot start, a warning goes to stderr, and
/// this rank does not end its calls that hang.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Makes the guard's thread check at once.
  void wake();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable woken_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace annulus::comm
