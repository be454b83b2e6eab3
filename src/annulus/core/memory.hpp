// Bytes of tensors and buffers, counted by purpose, so that a run can report its peak and later hold it against a
// prediction.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Current and peak bytes per purpose ("q", "kv", "ring buffers", ...) and in total, of this process.
class MemoryLedger {
 public:
  void add(const std::string& purpose, Index bytes);
  void remove(const std::string& purpose, Index bytes);
  Index current() const;
  Index peak() const;
  /// Peak bytes of each purpose; the sum may exceed peak(), since purposes peak at different times.
  std::map<std::string, Index> peak_by_purpose() const;
  /// Forgets the peaks, not what is held now.
  void reset_peak();

 private:
  struct Count {
    Index now = 0;
    Index peak = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Count> purposes_;
  Count total_;
};

/// The ledger of this process: one, because the memory of a process is one.
MemoryLedger& memory_ledger();

/// Peak resident bytes of this process as the operating system saw it (Linux: VmHWM), 0 where it does not say.
Index peak_resident_bytes();
/// The same now (Linux: VmRSS).
Index resident_bytes();

}  // namespace annulus::core
