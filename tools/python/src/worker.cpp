#include "worker.hpp"

#include <unistd.h>

#include <nanobind/stl/string.h>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "annulus/library/threads.hpp"
#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace nb = nanobind;

namespace annulus::python {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto interval = std::chrono::milliseconds(100);  // between two checks for Ctrl-C, or two calls of progress
constexpr auto most_at_the_end = std::chrono::seconds(10);

/// Thrown to end a computation when its caller has stopped waiting, or progress has raised. It never reaches a caller.
struct Ended {};

int threads_of_environment() {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  return asked != nullptr ? std::max(0, std::atoi(asked)) : 0;
}

/// Work that a caller has given to the thread.
struct Job {
  const std::function<void(const Progress&)>& work;
  nb::object progress;
  Threads threads = {};
  bool ended = false;                           // the caller has stopped waiting; under Worker::mutex
  bool done = false;                            // under Worker::mutex
  std::exception_ptr error = {};                // read once it is done
  std::optional<nb::python_error> raised = {};  // by progress; used only with the GIL held
};

class Worker {
 public:
  /// The worker is never destroyed, because its thread waits for work until the process ends.
  static Worker& one() {
    static Worker* const worker = new Worker;
    return *worker;
  }

  /// Counts a caller, from before it releases the GIL until it has the GIL again.
  class Caller {
   public:
    explicit Caller(Worker& worker) : worker_(worker) { worker_.enter(); }
    ~Caller() {
      const std::lock_guard<std::mutex> lock(worker_.mutex_);
      --worker_.callers_;
      worker_.changed_.notify_all();
    }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

   private:
    Worker& worker_;
  };

  void run(Job& job) {
    std::unique_lock<std::mutex> lock(mutex_);
    std::optional<nb::python_error> interrupt;
    while (!changed_.wait_for(lock, interval, [&] { return job_ == nullptr || closing_; })) {  // one job at a time
      lock.unlock();  // the GIL may be held by a thread that waits for the lock
      if (has_signal(interrupt)) {
        const nb::gil_scoped_acquire gil;
        throw nb::python_error(std::move(*interrupt));
      }
      lock.lock();
    }
    if (closing_) rest(lock);
    start(job.threads);
    job_ = &job;
    changed_.notify_all();
    while (!changed_.wait_for(lock, interval, [&] { return job.done; })) {
      if (closing_) continue;
      lock.unlock();  // the GIL may be held by a thread that waits for the lock
      const bool stop = !interrupt && has_signal(interrupt);
      lock.lock();
      job.ended = job.ended || stop;
    }
    if (closing_) rest(lock);
    lock.unlock();
    const nb::gil_scoped_acquire gil;
    if (interrupt) throw nb::python_error(std::move(*interrupt));
    if (job.raised) throw nb::python_error(std::move(*job.raised));
    if (job.error) std::rethrow_exception(job.error);
  }

  void set_threads(int count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check_count("set_threads", count);
    set_ = count;
  }
  void check_threads(int count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check_count("threads", count);
  }
  ThreadChoice choice() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return choose({});
  }

  void close() {
    if (process_ != getpid()) return;  // this process computed nothing (perhaps it was forked): no caller waits
    std::unique_lock<std::mutex> lock(mutex_);
    closing_ = true;
    closer_ = std::this_thread::get_id();
    if (job_ != nullptr) job_->ended = true;
    changed_.notify_all();
    changed_.wait_for(lock, most_at_the_end, [&] { return callers_ == resting_; });
  }

 private:
  static bool has_signal(std::optional<nb::python_error>& interrupt) {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    interrupt.emplace();
    return true;
  }

  /// Counts a caller. Throws if the worker's thread could not do the caller's work.
  void enter() {
    if (thread_ == std::this_thread::get_id()) {
      throw Error(ErrorKind::usage,
                  "progress: it calls annulus, which goes on when progress returns; expected a function that computes "
                  "nothing with annulus");
    }
    if (process_ != 0 && process_ != getpid()) {
      throw Error(
          ErrorKind::failure,
          "this process was forked from one that had computed with annulus already, and threads do not survive a "
          "fork: start it with the method 'spawn' or 'forkserver', or compute in this process only");
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (closing_ && closer_ == std::this_thread::get_id())
      throw Error(ErrorKind::failure, "Python is ending: annulus computes nothing any more");
    if (closing_) {  // a daemon thread: it ends without a message, which Python 3.13 could not print any more
      lock.unlock();
      PyErr_SetNone(PyExc_SystemExit);
      throw nb::python_error();
    }
    ++callers_;
  }

  /// Stops the calling thread for good, because it must not return to Python, which is ending.
  [[noreturn]] void rest(std::unique_lock<std::mutex>& lock) {
    ++resting_;
    changed_.notify_all();
    for (;;) changed_.wait(lock);
  }

  void check_count(const std::string& name, int count) const {
    if (count < 1 || count > most_threads) {
      throw Error(ErrorKind::usage,
                  name + ": " + std::to_string(count) + " threads, expected 1 to " + std::to_string(most_threads));
    }
    if (pool_ == 0 || count <= pool_) return;
    throw Error(ErrorKind::usage, name + ": " + std::to_string(count) +
                                      " threads; this process began to compute with " + std::to_string(pool_) +
                                      ", expected as many or fewer (set more before the first call, or "
                                      "OMP_NUM_THREADS)");
  }

  ThreadChoice choose(const Threads& threads) const {
    ThreadChoice chosen{0, "", pool_ > 0 ? processors_ : processors_of_this_process()};
    const std::pair<int, const char*> in_order[] = {{threads.asked, "the argument threads"},
                                                    {set_, "annulus.set_threads"},
                                                    {threads.suggested, "torch.get_num_threads"},
                                                    {threads_of_environment(), "OMP_NUM_THREADS"},
                                                    {int(chosen.processors.numbers.size()), "the processors"}};
    for (const auto& [count, source] : in_order) {
      if (count < 1) continue;
      chosen.count = std::min(count, pool_ > 0 ? pool_ : most_threads);
      chosen.source = source;
      return chosen;
    }
    chosen.count = 1;
    return chosen;
  }

  /// Decides how many threads compute this work. Before the first work, starts the worker's thread.
  void start(const Threads& threads) {
    const ThreadChoice chosen = choose(threads);
    if (pool_ > 0) return limit_threads(chosen.count);
    pool_ = chosen.count;
    processors_ = chosen.processors;
    process_ = getpid();
    try {
      std::thread([this] { work(); }).detach();
    } catch (const std::system_error& error) {
      pool_ = 0;  // the next call tries again
      process_ = 0;
      throw Error(ErrorKind::failure, std::string("the thread that computes cannot be started: ") + error.what() +
                                          "; expected memory for its stack, and fewer threads than ulimit -u allows");
    }
  }

  void start_kokkos() const {
    using Device = Kokkos::DefaultExecutionSpace::memory_space;
    static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, Device>::accessible,
                  "the Python package takes arrays in host memory; expected a Kokkos without CUDA or HIP");
    run_on(processors_.numbers);  // new threads inherit the processors of this one
#ifdef KOKKOS_ENABLE_OPENMP
    omp_set_num_threads(pool_);
#endif
    std::string name = "annulus", quiet = "--kokkos-disable-warnings";
    char* words[] = {name.data(), quiet.data(), nullptr};
    int count = 2;
    Kokkos::initialize(count, words);
    // An OpenMP runtime that was loaded by a pinned thread has one place, and pins all its threads to it. So the
    // threads are moved here.
    if (places_of_our_runtime().size() >= processors_.numbers.size()) return;
    using Space = Kokkos::DefaultHostExecutionSpace;
    Kokkos::parallel_for("annulus::run_on", Kokkos::RangePolicy<Space>(0, pool_).set_chunk_size(1),
                         [&](const int) { run_on(processors_.numbers); });
    Space().fence();
  }

  void work() {
    thread_ = std::this_thread::get_id();
    start_kokkos();
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return job_ != nullptr; });
      Job& job = *job_;
      lock.unlock();
      do_one(job);
      lock.lock();
      job_ = nullptr;
      job.done = true;
      changed_.notify_all();
    }
  }

  void do_one(Job& job) {
    Clock::time_point next = Clock::now() + interval;
    const Progress progress = [&](double share, const std::string& where) {
      if (share < 1 && Clock::now() < next) return;
      next = Clock::now() + interval;
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

  // Protected by mutex_, which no thread holds while it waits for the GIL.
  std::mutex mutex_;
  std::condition_variable changed_;
  Job* job_ = nullptr;
  int callers_ = 0, resting_ = 0;
  bool closing_ = false;
  std::thread::id closer_;
  int pool_ = 0;  // threads that were started; 0: none yet
  int set_ = 0;   // by set_threads()
  Processors processors_;

  std::atomic<pid_t> process_{0};  // the process that started the thread
  std::atomic<std::thread::id> thread_{};
};

}  // namespace

void set_threads(int count) { Worker::one().set_threads(count); }
void check_threads(int count) { Worker::one().check_threads(count); }
ThreadChoice thread_choice() { return Worker::one().choice(); }

void run(const std::function<void(const Progress&)>& work, const nb::object& progress, Threads threads) {
  Job job{work, progress, threads};
  const Worker::Caller caller(Worker::one());
  const nb::gil_scoped_release no_gil;
  Worker::one().run(job);
}

void end_with_python() {
  const nb::gil_scoped_release no_gil;
  Worker::one().close();
}

}  // namespace annulus::python
