#include "annulus/core/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "annulus/core/memory_bounds.hpp"

namespace annulus::core {

std::string describe_bytes(double bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} {}", bytes, units[unit]) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

void MemoryLedger::add(const std::string& purpose, Index bytes) {
  const std::lock_guard lock(mutex_);
  for (Count* count : {&purposes_[purpose], &total_}) {
    count->now += bytes;
    count->peak = std::max(count->peak, count->now);
  }
}

void MemoryLedger::remove(const std::string& purpose, Index bytes) {
  const std::lock_guard lock(mutex_);
  purposes_[purpose].now -= bytes;
  total_.now -= bytes;
}

Index MemoryLedger::current() const {
  const std::lock_guard lock(mutex_);
  return total_.now;
}

Index MemoryLedger::peak() const {
  const std::lock_guard lock(mutex_);
  return total_.peak;
}

std::map<std::string, Index> MemoryLedger::peak_by_purpose() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Index> peaks;
  for (const auto& [purpose, count] : purposes_) peaks[purpose] = count.peak;
  return peaks;
}

void MemoryLedger::reset_peak() {
  const std::lock_guard lock(mutex_);
  for (auto& [purpose, count] : purposes_) count.peak = count.now;
  total_.peak = total_.now;
}

MemoryLedger& memory_ledger() {
  static MemoryLedger ledger;
  return ledger;
}

Index peak_resident_bytes() { return numbers_in("/proc/self/status")["VmHWM:"] * 1024; }

Index resident_bytes() { return numbers_in("/proc/self/status")["VmRSS:"] * 1024; }

}  // namespace annulus::core
