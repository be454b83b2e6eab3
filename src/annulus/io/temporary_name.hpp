// Names of files that are being made: NAME.tmp.<machine>.<process>.<random> beside NAME. They cannot be guessed, two
// processes never share one, and it tells whether whoever makes the file is still alive.
#pragma once

#include <string>

namespace annulus::io {

/// 16 hexadecimal digits that cannot be guessed.
std::string random_digits();

/// A name that no other process makes. <machine> is a hash of host name, boot and pid namespace, so that equal process
/// ids in two containers or after a restart differ; <process> is PID-START, with the process's start time, since
/// process ids come again.
std::string temporary_name(const std::string& file);

/// Removes what dead processes of this machine left behind while they made `file`; warns on stderr, once of each, of
/// what another machine (or container) makes or made, with size and age. Call on one rank.
void remove_leftovers(const std::string& file);

}  // namespace annulus::io
