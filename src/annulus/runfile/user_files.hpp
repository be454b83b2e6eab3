// Finds out where a path that a user gives leads, and reads text files.
#pragma once

#include <filesystem>
#include <string>

namespace annulus::runfile {

/// Returns the path without "." and "..". As for the system, "link/../a.h5" is beside the folder to which the link
/// leads. Other links keep their names, so that one file has one name in journals, with "jobs/.." in its path or
/// without.
std::filesystem::path without_dots(const std::filesystem::path& path);

/// Follows symbolic links to their target, even if the target does not exist. Returns a path in which neither the file
/// nor a folder is a link. Throws Error(failure) if the links form a circle. Links like /dev/stdout, which lead to a
/// file or pipe that a process has opened, are returned as they are: a new file must not take the place of such a file.
std::string follow_links(const std::string& file);

/// Reads a text file of at most 16 MiB. Local. `expected` says what the file should be: "a run file (YAML)".
/// Throws Error(usage), also for a folder, and for a file that cannot be text. Users easily give an HDF5 file instead
/// of the run file that names it. For an HDF5 file, the message ends with `instead_of_hdf5`.
std::string read_text_file(const std::string& path, const std::string& expected,
                           const std::string& instead_of_hdf5 = "");

}  // namespace annulus::runfile
