// output.trace: what every rank did and when, as JSON that trace viewers open (Chrome's trace events, which Perfetto
// reads, too). A process of the viewer is a rank.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/clock.hpp"
#include "annulus/core/timeline.hpp"
#include "annulus/store/files/atomic_file.hpp"

namespace annulus::report {

/// Records the spans of every rank from its making on, and writes them at the end: complete or not at all. Its memory
/// is bounded (core/timeline.hpp), rank 0 holds the text of one other rank at a time.
class TraceFile {
 public:
  /// Takes the name, and compares the ranks' clocks; collective. Throws the same Error(failure) on every rank, as
  /// AtomicFile.
  TraceFile(const std::string& file, bool overwrite, const comm::Communicator& comm);

  /// Ends the recording and puts the file in place; collective. `about` stands in it as `otherData`. Throws the same
  /// Error(failure) on every rank.
  void finish(const std::vector<std::pair<std::string, std::string>>& about);

 private:
  const comm::Communicator& comm_;
  std::optional<store::AtomicFile> file_;  // on rank 0
  comm::ClockOffset first_;
  std::optional<core::Timeline> timeline_;  // from the end of the making on
};

}  // namespace annulus::report
