// Names of small files that are being made: NAME.tmp.<process>.<random> beside NAME. They cannot be guessed, two
// processes never share one, and the name tells whether whoever makes the file is still alive.
#pragma once

#include <string>

namespace annulus::store {

/// A name that no other process makes.
std::string temporary_name(const std::string& file);

/// Removes what dead processes of this machine left when they made `file`; warns on stderr, once of each, of what
/// another machine (or container) makes or made, with size and age. Call on one rank.
void remove_leftovers(const std::string& file);

}  // namespace annulus::store
