// Gives each process a name (a text), so that other processes can find out later whether that process is alive. An
// unfinished file NAME gets a temporary name with the name of the process that makes it: NAME.tmp.<process>.<random>.
// The temporary name cannot be guessed, and no two processes use the same one.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace annulus::store {

/// The name "<machine>.<process>". machine: a hash of host name, boot and pid namespace, because processes in two
/// containers, or before and after a reboot, can have equal ids. process: PID-START, where START is the time at which
/// the process started, because the system gives the id of a dead process to a new one.
std::string this_process();

/// Says whether a process still runs. elsewhere: this is not known, because the process is on another machine, in
/// another container, or from before a reboot.
enum class ProcessState { alive, dead, elsewhere };
/// `process`: a name from this_process(). Empty if the text is not such a name.
std::optional<ProcessState> process_state(const std::string& process);

/// Returns 16 hexadecimal digits that cannot be guessed.
std::string random_digits();

/// A temporary name for the unfinished `file`; no other process uses it.
std::string temporary_name(const std::string& file);

/// Removes temporary files of `file` that dead processes of this machine left. Warns on stderr, once for each temporary
/// file of a process that is `elsewhere`, and prints that file's size and age. Call it on one rank.
void remove_leftovers(const std::string& file);

/// A time in UTC. `format` is a format of strftime(): "%Y-%m-%d %H:%M:%S".
std::string utc_text(std::time_t seconds, const char* format);

}  // namespace annulus::store
