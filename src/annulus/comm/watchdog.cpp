#include "annulus/comm/watchdog.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "annulus/comm/runtime.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/core/unfinished_files.hpp"

namespace annulus::comm {
namespace {

constexpr int stalled_status = int(core::ErrorKind::stalled);
constexpr double longest_interval = 0.25;  // s; an alarm is heard within two of them
constexpr double longest_step = 1;         // s between two looks at the clock that count; more was a suspended job
constexpr double alarm_patience = 5;       // s; then whoever heard an alarm ends the job, should its raiser be dead

enum class Activity { working, waiting, blocked };

/// What the thread that owns MPI is doing, as the watchdog's thread may read it.
struct Record {
  std::mutex mutex;
  std::vector<std::string> places;
  std::vector<Outstanding> outstanding;
  Activity activity = Activity::working;
  double since = 0;
  std::atomic<std::uint64_t> signs{0};  // of life

  void begin(Activity what) {
    const std::lock_guard<std::mutex> lock(mutex);
    activity = what;
    since = core::wall_seconds();
    outstanding.clear();
    ++signs;
  }
  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex);
    const char* doing[] = {"computing", "waiting", "inside a file operation or a call of MPI"};
    const std::string where = places.empty() ? "" : fmt::format(" in {}", fmt::join(places, ", "));
    const std::string what = outstanding.empty() ? "" : ": " + describe(outstanding);
    return fmt::format("{}{} for {:.1f} s{}", doing[int(activity)], where, core::wall_seconds() - since, what);
  }
};

/// One each, because a process has one thread that owns MPI. The record is never destroyed: the watchdog's thread may
/// still write it out while the program ends.
Record& record() {
  static Record* const one = new Record;
  return *one;
}
Watchdog* current = nullptr;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

Place::Place(std::string name) {
  const std::lock_guard<std::mutex> lock(record().mutex);
  record().places.push_back(std::move(name));
}
Place::~Place() {
  const std::lock_guard<std::mutex> lock(record().mutex);
  record().places.pop_back();
}

Waiting::Waiting() {
  record().begin(Activity::waiting);
  if (current != nullptr) current->begin_wait();
}
Waiting::~Waiting() { record().begin(Activity::working); }
void Waiting::about(const std::vector<Outstanding>& outstanding) const {
  const std::lock_guard<std::mutex> lock(record().mutex);
  record().outstanding = outstanding;
}
void Waiting::look() const {
  if (current != nullptr) current->look();
}

Blocked::Blocked() { record().begin(Activity::blocked); }
Blocked::~Blocked() { record().begin(Activity::working); }

void watchdog_progress() {
  if (current != nullptr) current->progress();
}

bool is_watched() { return current != nullptr; }

Watchdog::Watchdog(const Communicator& comm, double timeout_seconds)
    : rank_(comm.rank()), timeout_(timeout_seconds), interval_(std::min(longest_interval, timeout_seconds / 8)) {
  core::require(current == nullptr, [] { return "a second watchdog"; });
  if (comm.size() == 1) return;
  try {
    board_.emplace(comm);
  } catch (const AgreedError& error) {
    if (comm.is_root()) {
      fmt::print(stderr,
                 "annulus: warning: {}: ranks cannot read how far the others are, so one that waits for a rank that "
                 "stopped is not ended after distribution.stall_timeout\n",
                 error.what());
    }
  }
  current = this;
  record().begin(Activity::working);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the thread: signals are the program's business
  thread_ = std::thread([this] { guard(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() { end(); }

void Watchdog::end() {
  if (!thread_.joinable()) return;
  current = nullptr;
  {
    const std::lock_guard<std::mutex> lock(stop_mutex_);
    stop_ = true;
  }
  stop_changed_.notify_one();
  thread_.join();
  board_.reset();
}

void Watchdog::begin_wait() {
  last_look_ = core::wall_seconds();
  idle_ = 0;
}

void Watchdog::progress() {
  ++record().signs;
  idle_ = 0;
  const double now = core::wall_seconds();
  if (!board_ || now < next_board_) return;
  next_board_ = now + interval_;
  board_->change(Board::progress);
  read_board();
}

void Watchdog::look() {
  ++record().signs;
  if (!board_) return;
  const double now = core::wall_seconds();
  idle_ += std::min(now - last_look_, longest_step);
  last_look_ = now;
  if (now >= next_board_) {
    next_board_ = now + interval_;
    read_board();
  }
  if (idle_ >= timeout_ && !alarmed_) give_up();
}

void Watchdog::read_board() {
  const auto numbers = board_->look();
  if (numbers[Board::progress] != progress_seen_) idle_ = 0;
  progress_seen_ = numbers[Board::progress];
  if (numbers[Board::alarm] > 0 && !alarmed_) join_alarm();
}

void Watchdog::give_up() {
  alarmed_ = true;
  write_diagnosis(fmt::format("no rank made progress for {:g} s", timeout_));
  board_->change(Board::alarm);
  linger(4 * interval_);
  abort_job(stalled_status);
}

void Watchdog::join_alarm() {
  alarmed_ = true;
  write_diagnosis("another rank raised the alarm");
  linger(alarm_patience);
  abort_job(stalled_status);
}

/// Goes on with MPI, which may have to serve other ranks' looks at the board.
void Watchdog::linger(double seconds) {
  for (const double end = core::wall_seconds() + seconds; core::wall_seconds() < end;) {
    board_->look();
    ++record().signs;
    sleep_for(1e-3);
  }
}

/// The watchdog's thread. No MPI here.
void Watchdog::guard() {
  Record& watched = record();
  double quiet = 0, last = core::wall_seconds();
  std::uint64_t seen = watched.signs;
  std::unique_lock<std::mutex> lock(stop_mutex_);
  while (!stop_changed_.wait_for(lock, std::chrono::duration<double>(interval_), [this] { return stop_; })) {
    const double now = core::wall_seconds();
    quiet += std::min(now - last, longest_step);
    last = now;
    const std::uint64_t signs = watched.signs;
    bool working = false;
    {
      const std::lock_guard<std::mutex> record_lock(watched.mutex);
      working = watched.activity == Activity::working;
    }
    if (working || signs != seen) quiet = 0;
    seen = signs;
    if (quiet < timeout_) continue;
    write_diagnosis(fmt::format("a call did not return for {:g} s", timeout_));
    sleep_for(4 * interval_);                 // for the others' diagnoses: they entered the call at about the same time
    core::remove_unfinished_files_within(2);  // s; the call may be the file system's
    _exit(stalled_status);
  }
}

void Watchdog::write_diagnosis(const std::string& reason) const {
  const std::string line =
      fmt::format("annulus: stalled: rank {}: {} (distribution.stall_timeout); {}\n", rank_, reason, record().text());
  std::fwrite(line.data(), 1, line.size(), stderr);  // at once, so that ranks' lines do not mix
  std::fflush(stderr);
}

}  // namespace annulus::comm
