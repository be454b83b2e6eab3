// Writes the file that the key output.trace names: what every rank did, and when. The file is JSON for trace viewers
// (Chrome's trace events, which Perfetto also reads). Each rank is a process in the viewer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/clock.hpp"
#include "annulus/core/timeline.hpp"
#include "annulus/store/files/atomic_file.hpp"

namespace annulus::report {

/// Records the spans (named intervals of time) of every rank, from the constructor to finish(), which writes the file
/// complete or not at all. The memory for spans is limited (core/timeline.hpp); rank 0 holds the text of one other rank
/// at a time.
class TraceFile {
 public:
  /// Makes an unfinished file, and compares the clocks of the ranks. Collective. Throws the same Error(failure) on
  /// every rank, as AtomicFile does.
  TraceFile(const std::string& file, bool overwrite, const comm::Communicator& comm);

  /// Ends the recording, and writes the file under its final name. `about` becomes the JSON value `otherData`.
  /// Collective. Throws the same Error(failure) on every rank.
  void finish(const std::vector<std::pair<std::string, std::string>>& about);

 private:
  const comm::Communicator& comm_;
  std::optional<store::AtomicFile> file_;   // exists on rank 0
  comm::ClockOffset first_;                 // this rank's clock compared with rank 0's, before recording begins
  std::optional<core::Timeline> timeline_;  // starts at the end of the constructor
};

}  // namespace annulus::report
