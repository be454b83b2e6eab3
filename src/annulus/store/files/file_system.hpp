// Checks, on one rank, a file's name and the free space before the file is made. Reserves space; reads, writes and
// flushes files.
#pragma once

#include <string>

#include "annulus/core/types.hpp"
#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

/// True if something has this name. Follows links.
bool exists(const std::string& file);
/// The same, but a link counts as something, also if it leads nowhere.
bool is_taken(const std::string& path);

/// Says why this name is too long; empty if it is not. (Until the file is finished, it has a longer temporary name,
/// which the file system must also allow.)
std::string why_too_long(const std::string& file);

/// Throws Error(failure) if `file` cannot be made: its name is too long; its folder is missing, not a folder or not
/// writable; the name belongs to something that is not a regular file (a folder, a FIFO, a device, a socket); or
/// the name belongs to a file that must not be replaced. Throws Error(usage) if `file` is an empty text. A link counts
/// as not regular, so `file` must be a result of runfile::follow_links().
void check_can_be_made(const std::string& file, bool overwrite);

/// Throws Error(failure) if the file system of `file` has less than `bytes` free.
void check_free_space(const std::string& file, core::Index bytes);

/// Makes an open file `bytes` long, and reserves this space if the file system can. So a full disk, a quota or a size
/// limit causes an error now, and not after hours of computing. Throws Error(failure) with the file's name.
void reserve(const Descriptor& descriptor, const std::string& name, core::Index bytes);

/// Adds `bytes` zeros at the end of a file. They are written, because some file systems cannot reserve space. Throws
/// Error(failure).
void extend(const Descriptor& descriptor, const std::string& name, core::Index bytes);

/// Reads `count` bytes at `offset`, or fewer if the file ends. Returns how many were read. On an error, returns -1 and
/// sets errno.
core::Index read_bytes(const Descriptor& descriptor, void* to, core::Index count, core::Index offset);

/// Writes `count` bytes at `offset`. Returns 0 or the error's number.
int write_all(const Descriptor& descriptor, const char* bytes, std::size_t count, core::Index offset);

/// Flushes the folder of a file, so that the file's name is on disk, too. An error, as of a file system that cannot
/// flush folders, is ignored.
void flush_folder(const std::string& file);

/// Flushes what this machine has written to a file. Throws Error(failure).
void flush_to_disk(const Descriptor& descriptor, const std::string& name);

/// Flushes and closes a file. Closing is checked, because some file systems (NFS, quotas) report a failed write only
/// then. Throws Error(failure).
void flush_and_close(Descriptor& descriptor, const std::string& name);

}  // namespace annulus::store
