// Gives each process a name (a text), so that other processes can find out later whether that process is alive. An
// unfinished file NAME gets a temporary name that contains the name of its process: NAME.tmp.<process>.<random>. Such a
// name cannot be guessed, and no two processes use the same name.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace annulus::store {

/// The name "<machine>.<process>". machine: a hash of host name, boot and pid namespace, because two containers of a
/// machine, or the machine before and after a reboot, can have equal process ids. process: PID-START, where START is
/// the start time of the process, because the system reuses ids.
std::string this_process();

/// Says whether a process, given by its name from this_process(), still runs. elsewhere: not known, because that
/// process is on another machine, in another container, or from before a reboot.
enum class ProcessState { alive, dead, elsewhere };
/// Empty for a text that names no process.
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
