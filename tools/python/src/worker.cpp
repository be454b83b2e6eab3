#include "worker.hpp"

#include <sched.h>
#include <unistd.h>

#include <nanobind/stl/string.h>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "annulus/library/threads.hpp"
#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace nb = nanobind;

namespace annulus::python {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto ear = std::chrono::milliseconds(100);  // between two looks for Ctrl-C, and two calls of progress

/// Thrown through the kernels where the caller does not want to wait any more; never seen by him.
struct Ended {};

int default_threads() {
  if (const char* asked = std::getenv("OMP_NUM_THREADS")) {
    if (const int count = std::atoi(asked); count > 0) return count;
  }
  cpu_set_t mine;
  return sched_getaffinity(0, sizeof(mine), &mine) == 0 ? std::max(1, CPU_COUNT(&mine)) : 1;
}

/// A piece of work on its way through the thread.
struct Job {
  const std::function<void(const Progress&)>& work;
  nb::object progress;
  bool ended = false;                           // the caller wants no more of it; under Worker::mutex
  bool done = false;                            // under Worker::mutex
  std::exception_ptr error = {};                // read once it is done
  std::optional<nb::python_error> raised = {};  // by progress; touched with the GIL
};

class Worker {
 public:
  /// Never destroyed: at the end of the process its thread waits for work, and ends with it.
  static Worker& one() {
    static Worker* const worker = new Worker;
    return *worker;
  }

  void run(Job& job) {
    start();
    const std::lock_guard<std::mutex> mine(callers_);
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = &job;
    changed_.notify_all();
    std::optional<nb::python_error> interrupt;
    while (!changed_.wait_for(lock, ear, [&] { return job.done; })) {
      lock.unlock();  // the GIL may be held by a thread that waits for the lock
      const bool stop = !interrupt && has_signal(interrupt);
      lock.lock();
      job.ended = job.ended || stop;
    }
    lock.unlock();
    const nb::gil_scoped_acquire gil;
    if (interrupt) throw nb::python_error(std::move(*interrupt));
    if (job.raised) throw nb::python_error(std::move(*job.raised));
    if (job.error) std::rethrow_exception(job.error);
  }

  void set_threads(int count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (count < 1)
      throw Error(ErrorKind::usage, "set_threads: " + std::to_string(count) + " threads, expected 1 or more");
    if (started_ && count > threads_) {
      throw Error(ErrorKind::usage,
                  "set_threads: " + std::to_string(count) + " threads; this process began to compute with " +
                      std::to_string(threads_) +
                      ", expected as many or fewer (set more before the first call, or OMP_NUM_THREADS)");
    }
    (started_ ? wanted_ : threads_) = count;
    if (started_) limit_threads(count);
  }
  int get_threads() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (threads_ == 0) return default_threads();
    return started_ && wanted_ > 0 ? wanted_ : threads_;
  }

 private:
  static bool has_signal(std::optional<nb::python_error>& interrupt) {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    interrupt.emplace();
    return true;
  }

  /// Starts the thread with the first work.
  void start() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (started_ && process_ != getpid()) {
      throw Error(
          ErrorKind::failure,
          "this process was forked from one that had computed with annulus already, and threads do not survive a "
          "fork: start it with the method 'spawn' or 'forkserver', or compute in it alone");
    }
    if (started_) return;
    if (threads_ == 0) threads_ = default_threads();
    started_ = true;
    process_ = getpid();
    std::thread([this] { work(); }).detach();
  }

  void work() {
#ifdef KOKKOS_ENABLE_OPENMP
    omp_set_num_threads(threads_);
#endif
    std::string name = "annulus", quiet = "--kokkos-disable-warnings";
    char* words[] = {name.data(), quiet.data(), nullptr};
    int count = 2;
    Kokkos::initialize(count, words);
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return job_ != nullptr; });
      Job& job = *std::exchange(job_, nullptr);
      lock.unlock();
      do_one(job);
      lock.lock();
      job.done = true;
      changed_.notify_all();
    }
  }

  void do_one(Job& job) {
    Clock::time_point next = Clock::now() + ear;
    const Progress progress = [&](double share, const std::string& where) {
      if (share < 1 && Clock::now() < next) return;
      next = Clock::now() + ear;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (job.ended) throw Ended();
      }
      if (job.progress.is_valid() && !job.progress.is_none()) tell(job, share, where);
    };
    try {
      job.work(progress);
    } catch (const Ended&) {  // the caller knows
    } catch (...) {
      job.error = std::current_exception();
    }
  }

  static void tell(Job& job, double share, const std::string& where) {
    const nb::gil_scoped_acquire gil;
    try {
      job.progress(share, where);
    } catch (nb::python_error& error) {
      job.raised.emplace(std::move(error));
      throw Ended();
    }
  }

  std::mutex callers_;  // one at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  Job* job_ = nullptr;
  bool started_ = false;
  int threads_ = 0, wanted_ = 0;
  pid_t process_ = 0;
};

}  // namespace

void set_threads(int count) { Worker::one().set_threads(count); }
int get_threads() { return Worker::one().get_threads(); }

void run(const std::function<void(const Progress&)>& work, const nb::object& progress) {
  Job job{work, progress};
  {
    const nb::gil_scoped_release no_gil;
    Worker::one().run(job);
  }
}

}  // namespace annulus::python
