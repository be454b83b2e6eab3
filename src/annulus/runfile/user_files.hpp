// Files that a user names: where a path leads, and texts.
#pragma once

#include <string>

namespace annulus::runfile {

/// The file that `file` stands for: links are followed to their end, whether something is there or not, and its folder
/// is written without links. Throws Error(failure) when they go round in a circle.
std::string follow_links(const std::string& file);

/// Reads all of a text file, 16 MiB at most; on this rank alone. `expected` says what it is: "a run file (YAML)".
/// Throws Error(usage), also for a folder and for what cannot be text: HDF5 files are easily mixed up with those that
/// name them, and `instead_of_hdf5` then ends the message.
std::string read_text_file(const std::string& path, const std::string& expected,
                           const std::string& instead_of_hdf5 = "");

}  // namespace annulus::runfile
