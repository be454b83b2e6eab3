// Records what the thread that owns MPI is doing; the guard's thread may read the record. Used only in this folder.
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
  /// Sets what the thread is doing now; returns what it was doing before, for go_back().
  Doing begin(Doing::Activity activity, std::string what = "");
  /// Sets what the thread is doing back to `before`; returns what the thread was doing until now. Counts a beat if the
  /// thread was inside a call, unless it made this call while it waited.
  Doing go_back(Doing before);
  /// Sets what the thread waits for, for text().
  void wait_for(const std::vector<Outstanding>& outstanding);

  /// Counts an event that proves that the recorded thread is not stuck. The guard reads the count.
  void sign_of_life() { ++signs_; }
  std::uint64_t signs() const { return signs_; }

  /// From now on beat() counts in `*number`, which other ranks can read. Pass null before that memory is freed.
  void set_beats(Index* number);
  /// Counts a beat if this rank is working. Returns what this rank is doing. Called by the guard's thread.
  Doing::Activity beat();

  /// Returns in words what the thread is doing: "waiting in reading in.h5 for 2.0 s: ...".
  std::string text();
  /// Returns the kind of call in which the thread is: "a file operation", "a call of MPI" or "a call of NCCL".
  std::string kind_of_call();
  /// Prints this rank's line about a stalled run, writes the rank's last steps (last_events.hpp), and sets the final
  /// status.
  void diagnose(const std::string& reason);

  std::atomic<int> rank{-1};  ///< -1 until Runtime has started MPI

 private:
  void count_beat();

  std::mutex mutex_;
  std::vector<std::string> scopes_;
  std::vector<Outstanding> outstanding_;
  Doing doing_;
  Index* beats_ = nullptr;
  std::atomic<std::uint64_t> signs_{0};
};

/// Returns the only Record, because a process has one thread that owns MPI. The record is never destroyed, because the
/// guard's thread may still print it while the program ends.
Record& record();

}  // namespace annulus::comm
