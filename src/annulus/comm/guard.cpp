#include "annulus/comm/guard.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>

#include "annulus/comm/record.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/core/print.hpp"
#include "annulus/core/unfinished_files.hpp"

namespace annulus::comm {
namespace {

static_assert(stalled_status == int(core::ErrorKind::stalled));
constexpr double longest_step = 1;         // s; a limit of counted()
constexpr double longest_interval = 0.25;  // s; limit of look_interval(): ranks notice an alarm within two intervals

std::atomic<double> timeout{default_stall_timeout};
std::atomic<double> limit{std::numeric_limits<double>::infinity()};  // set by shorten_stall_timeout()
static_assert(std::atomic<double>::is_always_lock_free, "a signal handler changes it");
std::atomic<const char*> source_of_timeout{"distribution.stall_timeout"};
std::atomic<int> status_at_end{-1};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads it");
Guard* guard = nullptr;  // used by the thread that owns MPI

std::chrono::duration<double> seconds(double number) { return std::chrono::duration<double>(number); }

}  // namespace

void set_stall_timeout(double seconds, const char* source) {
  timeout = seconds;
  source_of_timeout = source;
  if (guard != nullptr) guard->wake();
}
void shorten_stall_timeout(double seconds) {
  if (seconds < limit) limit = seconds;
}
const char* stall_timeout_source() { return limit < timeout ? "shortened by SIGTERM" : source_of_timeout.load(); }
double stall_timeout() { return std::min<double>(timeout, limit); }
void set_final_status(int status) { status_at_end = status; }
int final_status() { return status_at_end; }
double look_interval() { return std::min(longest_interval, stall_timeout() / 8); }
double counted(double seconds) { return std::min({seconds, longest_step, stall_timeout() / 8}); }

Guard::Guard() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask, so it handles no signals
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    core::print_to_stderr(
        "annulus: warning: the thread that ends hung calls could not be started: {}; a call that hangs here is "
        "not ended by this rank\n",
        error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  guard = this;
}

Guard::~Guard() {
  guard = nullptr;
  if (!thread_.joinable()) return;
  stop_ = true;
  wake();
  thread_.join();
}

void Guard::wake() {
  // Once started, the guard's thread holds the mutex except while it sleeps, so it cannot miss the notification. If it
  // has not started yet, it will read the new values anyway.
  const std::lock_guard<std::mutex> lock(mutex_);
  woken_.notify_one();
}

void Guard::watch() {
  Record& watched = record();
  double quiet = 0, last = core::wall_seconds(), allowed = stall_timeout();
  std::uint64_t seen = watched.signs();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    woken_.wait_for(lock, seconds(look_interval()));
    const double now = core::wall_seconds();
    quiet += counted(now - last);
    last = now;
    const bool working = watched.beat() == Doing::working;
    const std::uint64_t signs = watched.signs();
    // If the time-out has changed, counting starts again.
    if (working || signs != seen || allowed != stall_timeout()) quiet = 0;
    seen = signs;
    allowed = stall_timeout();
    if (quiet < allowed) continue;
    watched.diagnose(fmt::format("{} did not return for {:g} s", watched.kind_of_call(), allowed));
    core::remove_unfinished_files_within(2);                    // s; not longer, because the file system may hang
    std::this_thread::sleep_for(seconds(4 * look_interval()));  // so that other ranks that hang write their diagnoses
    _exit(stalled_status);
  }
}

}  // namespace annulus::comm
