// Where a rank of a stalled run leaves what it did last.
#pragma once

#include <string>

namespace annulus::comm {

/// From now on beside this file, as FILE.stalled.RANK.jsonl; "": nowhere, as at the start. On each rank by itself.
void leave_events_beside(const std::string& file);

/// Writes the last spans (core/last_spans.hpp) and, as the last line, what this rank is `doing` now; returns the file's
/// name. Empty where there is no place, or the file is not there within a second: the file system may be what hangs.
/// Any thread.
std::string leave_events(int rank, const std::string& doing);

}  // namespace annulus::comm
