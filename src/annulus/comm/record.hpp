// What the thread that owns MPI is doing, as the guard's thread may read it. For this room's own use.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/comm/requests.hpp"

namespace annulus::comm {

class Record {
 public:
  void push_scope(std::string name);
  void pop_scope();
  /// Returns what was done before, for nesting.
  Doing begin(Doing::Activity activity, std::string what = "");
  /// Returns what was done until now. A call that returned changes the heartbeat: a row of long calls is no hang.
  Doing go_back(Doing before);
  void wait_for(const std::vector<Outstanding>& outstanding);

  /// Counts anything that proves that this thread is not stuck. Also read by the guard.
  void sign_of_life() { ++signs_; }
  std::uint64_t signs() const { return signs_; }

  /// Another rank can read `*number`; null: no longer, and the memory may go. See beat().
  void set_beats(Index* number);
  /// Changes the heartbeat if this rank is working. Returns what it is doing. For the guard's thread.
  Doing::Activity beat();

  /// "waiting in reading in.h5 for 2.0 s: ...".
  std::string text();
  /// "a file operation" or "a call of MPI": what it is inside of.
  std::string kind_of_call();
  /// Writes this rank's line about a stalled run to stderr, and what it did last to a file (last_events.hpp).
  void diagnose(const std::string& reason);

  std::atomic<int> rank{-1};  ///< before MPI has told it

 private:
  void count_beat();

  std::mutex mutex_;
  std::vector<std::string> scopes_;
  std::vector<Outstanding> outstanding_;
  Doing doing_;
  Index* beats_ = nullptr;
  std::atomic<std::uint64_t> signs_{0};
};

/// One, because a process has one thread that owns MPI. Never destroyed: the guard's thread may still write it out
/// while the program ends.
Record& record();

}  // namespace annulus::comm
