// Which process of which machine made a file, and when, as text that other processes can look at later; and names of
// small files that are being made: NAME.tmp.<process>.<random> beside NAME. They cannot be guessed, two processes never
// share one, and the name tells whether whoever makes the file is still alive.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace annulus::store {

/// "<machine>.<process>": a hash of host name, boot and pid namespace, so that equal process ids in two containers or
/// after a restart differ; and PID-START, with the process's start time, since process ids come again.
std::string this_process();

/// Whether a process, as this_process() named it, still runs. Of one on another machine or in another
/// container this cannot be known.
enum class ProcessState { alive, dead, elsewhere };
/// Nothing for a text that names no process.
std::optional<ProcessState> process_state(const std::string& process);

/// 16 hexadecimal digits that cannot be guessed.
std::string random_digits();

/// A name for a file that becomes `file`, which no other process makes.
std::string temporary_name(const std::string& file);

/// Removes what dead processes of this machine left when they made `file`; warns on stderr, once of each, of what
/// another machine (or container) makes or made, with size and age. Call on one rank.
void remove_leftovers(const std::string& file);

/// A time in UTC; `format` as of strftime: "%Y-%m-%d %H:%M:%S".
std::string utc_text(std::time_t seconds, const char* format);

}  // namespace annulus::store
