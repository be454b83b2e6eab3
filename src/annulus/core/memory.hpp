// Counts the bytes of tensors and buffers by purpose, so that a run can report its peak and compare it with the
// prediction.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Current and peak bytes of this process, by purpose ("q", "kv", "hop buffers", ...) and in total.
class MemoryLedger {
 public:
  void add(const std::string& purpose, Index bytes);
  void remove(const std::string& purpose, Index bytes);
  Index current() const;
  Index peak() const;
  /// Peak bytes of each purpose; the sum may exceed peak(), because purposes peak at different times.
  std::map<std::string, Index> peak_by_purpose() const;
  /// Forgets the peaks, but not the current bytes.
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

/// Returns bytes as text: "1.5 GiB".
std::string describe_bytes(double bytes);

/// The one ledger of this process.
MemoryLedger& memory_ledger();

/// Returns the peak resident bytes of this process as the operating system reports them (Linux: VmHWM); 0 elsewhere.
Index peak_resident_bytes();
/// Returns the resident bytes at this moment (Linux: VmRSS); 0 elsewhere.
Index resident_bytes();

}  // namespace annulus::core
