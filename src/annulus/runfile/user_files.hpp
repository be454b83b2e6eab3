// Follows the paths that users give, and reads text files.
#pragma once

#include <filesystem>
#include <string>

namespace annulus::runfile {

/// Returns the path without "." and "..". As in the operating system, "link/../a.h5" is beside the folder to which the
/// link leads. If no ".." leads through a link, links are not resolved. So a journal has the same name for a file,
/// whether the user writes "jobs/.." in the path or not.
std::filesystem::path without_dots(const std::filesystem::path& path);

/// Follows symbolic links to their target, also if the target does not exist. Returns a path in which neither the file
/// nor a folder is a link. Throws Error(failure) if the links form a circle. A link like /dev/stdout leads to a file or
/// pipe that a process has opened. Such a link is returned as it is, because a new file must not replace that file.
std::string follow_links(const std::string& file);

/// Reads a text file of at most 16 MiB; not collective. `expected` says what the file should be: "a run file (YAML)".
/// Throws Error(usage) if the file cannot be read, is too large, is a folder, or is not text. For an HDF5 file, which
/// users easily give instead of the run file that names it, the message ends with `instead_of_hdf5`.
std::string read_text_file(const std::string& path, const std::string& expected,
                           const std::string& instead_of_hdf5 = "");

}  // namespace annulus::runfile
