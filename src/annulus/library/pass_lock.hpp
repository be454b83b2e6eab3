// The lock that makes a process run only one pass at a time.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "annulus/core/error.hpp"

namespace annulus::library {

/// Each pass, and reference(), holds this lock. All threads share the kernels' panels of packed rows, the settings of
/// arithmetic, and MPI. So a process runs one pass at a time, and a second thread waits. If a progress function starts
/// a pass, the constructor throws Error(usage), because the new pass would wait for ever for the pass that called the
/// function.
class PassLock {
 public:
  explicit PassLock(const char* name) {
    if (holder() == std::this_thread::get_id()) {
      core::fail(core::ErrorKind::usage,
                 "{}: called by the progress function of a pass, which waits for that function; expected a function "
                 "that calls no pass",
                 name);
    }
    mutex().lock();
    holder() = std::this_thread::get_id();
  }
  ~PassLock() {
    holder() = std::thread::id();
    mutex().unlock();
  }
  PassLock(const PassLock&) = delete;
  PassLock& operator=(const PassLock&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::atomic<std::thread::id>& holder() {
    static std::atomic<std::thread::id> one{};
    return one;
  }
};

}  // namespace annulus::library
