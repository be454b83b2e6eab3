// Names processes in text, so that other processes can find out later whether they are alive. Names unfinished files
// after them: NAME.tmp.<process>.<random> beside NAME. Such a name cannot be guessed, no two processes use the same,
// and it names the process that makes the file.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace annulus::store {

/// "<machine>.<process>". machine: a hash of host name, boot and pid namespace, because two containers, or two boots of
/// a machine, can have equal process ids. process: PID-START with the start time, because the system reuses ids.
std::string this_process();

/// Whether the process that this_process() named still runs. elsewhere: it is on another machine or in another
/// container, so it cannot be known.
enum class ProcessState { alive, dead, elsewhere };
/// Empty for a text that names no process.
std::optional<ProcessState> process_state(const std::string& process);

/// Returns 16 hexadecimal digits that cannot be guessed.
std::string random_digits();

/// A temporary name for the unfinished `file`; no other process uses it.
std::string temporary_name(const std::string& file);

/// Removes temporary files of `file` that dead processes of this machine left. For those of another machine (or
/// container) it warns on stderr, once for each, with size and age. Call it on one rank.
void remove_leftovers(const std::string& file);

/// A time in UTC. `format` is one for strftime: "%Y-%m-%d %H:%M:%S".
std::string utc_text(std::time_t seconds, const char* format);

}  // namespace annulus::store
