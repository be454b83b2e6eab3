#include "annulus/comm/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "annulus/comm/record.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/core/print.hpp"

namespace annulus::comm {
namespace {

constexpr double alarm_patience = 5;  // s; if a rank that saw the alarm still runs after this time, it ends the job

Watchdog* current = nullptr;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

Waiting::Waiting() : before_(record().begin(Doing::waiting)) {
  if (current != nullptr) current->begin_wait();
}
Waiting::~Waiting() { record().go_back(std::move(before_)); }
void Waiting::about(const std::vector<Outstanding>& outstanding) const { record().wait_for(outstanding); }
// With one rank, or while MPI starts, there is no watchdog. Then look() gives no sign of life, so the guard may end
// long waits.
void Waiting::look() const {
  if (current != nullptr) current->look();
}

void watchdog_progress() {
  if (current != nullptr) current->progress();
}

bool is_watched() { return current != nullptr; }

Watchdog::Watchdog(const Communicator& comm, double timeout_seconds, const char* source)
    : comm_(comm), timeout_before_(stall_timeout()), source_before_(stall_timeout_source()) {
  core::require(current == nullptr, [] { return "a second watchdog"; });
  set_stall_timeout(timeout_seconds, source);
  if (comm.size() == 1) return;
  try {
    heartbeat_.emplace(comm);
  } catch (const AgreedError& error) {
    if (comm.is_root()) {
      core::print_to_stderr(
          "annulus: warning: {}: ranks cannot read the progress of other ranks, so a rank that waits for a "
          "stopped one is never ended\n",
          error.what());
    }
  }
  current = this;
}

Watchdog::~Watchdog() {
  if (comm_.size() > 1 && std::uncaught_exceptions() == 0) {
    const Scope scope("the end of the program");
    comm_.barrier();  // here the watchdog knows which rank is busy; ranks that wait in MPI_Finalize would look hung
  }
  current = nullptr;
  heartbeat_.reset();
  set_stall_timeout(timeout_before_, source_before_);
}

void Watchdog::begin_wait() {
  last_look_ = core::wall_seconds();
  start_over();
}

void Watchdog::start_over() {
  allowed_ = stall_timeout();
  idle_ = next_listening_ = 0;
}

void Watchdog::progress() {
  record().sign_of_life();
  start_over();
  const double now = core::wall_seconds();
  if (!heartbeat_ || now < next_read_) return;
  next_read_ = now + look_interval();
  const BlockingScope inside("MPI_Rput");
  heartbeat_->change(Heartbeat::progress);
  read_heartbeat();
}

void Watchdog::look() {
  record().sign_of_life();
  if (!heartbeat_) return;
  const double now = core::wall_seconds();
  if (stall_timeout() != allowed_) start_over();
  idle_ += counted(now - last_look_);
  last_look_ = now;
  if (now >= next_read_) {
    next_read_ = now + look_interval();
    read_heartbeat();
    if (comm_.is_root()) listen();
  }
  if (idle_ >= allowed_ && !alarmed_) abort_stalled();
}

void Watchdog::read_heartbeat() {
  const auto numbers = heartbeat_->look();
  if (numbers[Heartbeat::progress] != progress_seen_ || numbers[Heartbeat::beats] != beat_seen_) start_over();
  progress_seen_ = numbers[Heartbeat::progress];
  beat_seen_ = numbers[Heartbeat::beats];
  if (numbers[Heartbeat::alarm] > 0 && !alarmed_) join_alarm();
}

/// Reads the other ranks' beats a few times before the time-out. The first read gives values to compare with. Reading
/// begins early enough for the waiting ranks to know of a change before the time-out.
void Watchdog::listen() {
  const double first = allowed_ / 8, step = allowed_ / 16;
  if (idle_ < std::max(first, next_listening_)) return;
  if (next_listening_ == 0) heartbeat_->forget_beats();
  next_listening_ = idle_ + step;
  if (!heartbeat_->hear()) return;
  start_over();
  heartbeat_->change(Heartbeat::progress);
}

void Watchdog::abort_stalled() {
  alarmed_ = true;
  record().diagnose(fmt::format("no rank made progress for {:g} s", allowed_));
  heartbeat_->change(Heartbeat::alarm);
  linger(4 * look_interval());
  abort_job(stalled_status);
}

void Watchdog::join_alarm() {
  alarmed_ = true;
  record().diagnose("another rank raised the alarm");
  linger(alarm_patience);
  abort_job(stalled_status);
}

/// Keeps calling MPI, because MPI may have to serve other ranks' reads of the heartbeat.
void Watchdog::linger(double seconds) {
  for (const double end = core::wall_seconds() + seconds; core::wall_seconds() < end;) {
    heartbeat_->look();
    record().sign_of_life();
    sleep_for(1e-3);
  }
}

}  // namespace annulus::comm
