// A thread that watches the one that owns MPI, from before MPI starts until after it ends: when that one gave no sign
// of life for the time-out while it was waiting or inside a call, this process is ended by _exit(4), on which the
// launcher ends the others. It also keeps this rank's heartbeat going while the other thread works.
//
// It makes no MPI call: MPI runs FUNNELED, and its owner may hold MPI's locks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace annulus::comm {

/// Exit status of a run that was ended because it was stalled.
inline constexpr int stalled_status = 4;
/// distribution.stall_timeout until somebody says otherwise.
inline constexpr double default_stall_timeout = 300;  // s

/// From now on a run in which nothing happens for so long is stalled. On all ranks alike.
void set_stall_timeout(double seconds);
/// At most so long from now on, on this rank: the process has been told to end, and will be killed if it stays. May be
/// called in a signal handler.
void shorten_stall_timeout(double seconds);
double stall_timeout();
/// Where the time-out is from: "distribution.stall_timeout" or the signal.
const char* stall_timeout_source();
/// Seconds between two looks at what others do: a small part of the time-out.
double look_interval();
/// The seconds between two looks at the clock that count. More means a suspended job, or a crowded machine.
double counted(double seconds);

/// One per process at most. Where no thread can be had it warns on stderr, and calls that hang are not ended.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Has it look at once.
  void wake();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable woken_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace annulus::comm
