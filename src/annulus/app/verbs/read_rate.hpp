// How fast ranks read files, for `plan --calibrate`.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

/// Bytes per second that each rank reads of a file of its own while all ranks read; 0 where it cannot be measured.
struct ReadRates {
  double storage = 0;    ///< of files that the page cache was asked to drop
  double cached = 0;     ///< of files that were read just before
  bool is_kept = false;  ///< the page cache kept most of some file: `storage` is a rate of memory, too

  /// "812.3 MiB/s from storage (read_rate), 12.8 GiB/s from the page cache".
  std::string text() const;
};

/// Makes a file of 64 MiB for each rank beside `beside`, flushes it to disk, reads it and removes it; collective.
ReadRates measure_read_rates(const std::string& beside, const comm::Communicator& comm);

}  // namespace annulus::app
