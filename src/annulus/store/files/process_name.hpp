// Which process of which machine made a file, as text that other processes can look at later.
#pragma once

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

}  // namespace annulus::store
