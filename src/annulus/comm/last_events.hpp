// Writes into a file what a rank of a stalled run did last.
#pragma once

#include <string>

namespace annulus::comm {

/// From now on write_last_events() of this rank writes FILE.stalled.RANK.jsonl, where FILE is `file`. That function
/// writes nothing if `file` is "", or before the first call of this function.
void write_last_events_beside(const std::string& file);

/// Writes the last spans (core/last_spans.hpp) and, as the last line, what this rank is `doing` now; returns the file's
/// name. Returns "" if no file is made, or if the file is not complete within a second. The function waits no longer,
/// because the file system itself may hang. Any thread may call it.
std::string write_last_events(int rank, const std::string& doing);

}  // namespace annulus::comm
