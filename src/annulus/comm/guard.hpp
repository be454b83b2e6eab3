// A thread that watches the thread that owns MPI, from before MPI starts until after it ends. If that thread waits or
// is inside a call and gives no sign of life for the time-out, the guard ends this process by _exit(4); the launcher
// then ends the others. It also keeps this rank's heartbeat going while the other thread works.
//
// The guard makes no MPI call: MPI runs FUNNELED, and the thread that owns it may hold MPI's locks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace annulus::comm {

/// Exit status of a run that was ended because it stalled.
inline constexpr int stalled_status = 4;
/// distribution.stall_timeout, unless it is set.
inline constexpr double default_stall_timeout = 300;  // s

/// From now on a run without any progress for this long is stalled. Call it on all ranks alike. `source`: the setting
/// that has the number, for messages; a string that is never freed.
void set_stall_timeout(double seconds, const char* source = "distribution.stall_timeout");
/// From now on the time-out is at most this long, on this rank: the process has received a signal to end, and will be
/// killed if it stays. May be called in a signal handler.
void shorten_stall_timeout(double seconds);
double stall_timeout();
/// What set the time-out: the source of set_stall_timeout(), or a signal ("as told to end").
const char* stall_timeout_source();
/// Seconds between two looks at other ranks: a small part of the time-out.
double look_interval();
/// Limits the seconds between two readings of the clock: a longer time means that the job was suspended.
double counted(double seconds);

/// At most one per process. If no thread can be started, it warns on stderr, and calls that hang are not ended.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Makes the thread look at once.
  void wake();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable woken_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace annulus::comm
