#include "annulus/comm/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "annulus/comm/guard.hpp"
#include "annulus/comm/last_events.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::comm {

void Record::push_scope(std::string name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  scopes_.push_back(std::move(name));
}

void Record::pop_scope() {
  const std::lock_guard<std::mutex> lock(mutex_);
  scopes_.pop_back();
}

Doing Record::begin(Doing::Activity activity, std::string what) {
  const double now = core::wall_seconds();
  const std::lock_guard<std::mutex> lock(mutex_);
  ++signs_;
  if (activity == Doing::waiting) outstanding_.clear();
  return std::exchange(doing_, {activity, now, std::move(what)});
}

Doing Record::go_back(Doing before) {
  if (before.activity == Doing::working) before.since = core::wall_seconds();
  const std::lock_guard<std::mutex> lock(mutex_);
  ++signs_;
  // A call that returned is progress. But a rank that waits also makes calls, only to look whether it must still wait
  // (LongRun::claim()). These calls are no progress.
  if (doing_.activity == Doing::blocked && before.activity != Doing::waiting) count_beat();
  return std::exchange(doing_, std::move(before));
}

void Record::wait_for(const std::vector<Outstanding>& outstanding) {
  const std::lock_guard<std::mutex> lock(mutex_);
  outstanding_ = outstanding;
}

void Record::set_beats(Index* number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  beats_ = number;
}

Doing::Activity Record::beat() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (doing_.activity == Doing::working) count_beat();
  return doing_.activity;
}

void Record::count_beat() {
  if (beats_ != nullptr) ++std::atomic_ref<Index>(*beats_);
}

std::string Record::text() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string doing = doing_.activity == Doing::working   ? "computing"
                            : doing_.activity == Doing::waiting ? "waiting"
                                                                : "inside " + doing_.what;
  const std::string where = scopes_.empty() ? "" : fmt::format(" in {}", fmt::join(scopes_, ", "));
  const bool waits = doing_.activity == Doing::waiting && !outstanding_.empty();
  return fmt::format("{}{} for {:.1f} s{}", doing, where, core::wall_seconds() - doing_.since,
                     waits ? ": " + describe(outstanding_) : "");
}

std::string Record::kind_of_call() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (doing_.what.rfind("nccl", 0) == 0) return "a call of NCCL";
  return doing_.activity == Doing::waiting || doing_.what.rfind("MPI_", 0) == 0 ? "a call of MPI" : "a file operation";
}

void Record::diagnose(const std::string& reason) {
  const std::string who = rank >= 0 ? fmt::format("rank {}", rank.load()) : fmt::format("process {}", getpid());
  const std::string doing = text(), events = write_last_events(rank, doing);
  const std::string line = fmt::format("annulus: stalled: {}: {} ({}); {}{}\n", who, reason, stall_timeout_source(),
                                       doing, events.empty() ? "" : "; its last steps are in " + events);
  std::fwrite(line.data(), 1, line.size(), stderr);  // in one call, so that lines of several ranks do not mix
  std::fflush(stderr);
  set_final_status(stalled_status);
}

Record& record() {
  static Record* const one = new Record;
  return *one;
}

}  // namespace annulus::comm
