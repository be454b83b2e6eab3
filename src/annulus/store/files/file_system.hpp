// Where a file goes: what may stand there already, and whether there is room. For one rank.
#pragma once

#include <string>

#include "annulus/core/types.hpp"
#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

/// Whether there is something under this name, links being followed.
bool exists(const std::string& file);
/// The same, but a link counts, even one that leads nowhere.
bool is_taken(const std::string& path);

/// Why a file of this name cannot be made, because the longer one that it has until it is finished is too long for its
/// file system; empty: it can.
std::string why_too_long(const std::string& file);

/// Throws Error(failure) when `file` cannot be made: its name is too long, its folder is missing, no folder or not
/// writable, what is there is no regular file (a folder, a FIFO, a device, a socket), or it may not be replaced. Links
/// must have been followed.
void check_can_be_made(const std::string& file, bool overwrite);

/// Throws Error(failure) when the file system that holds `file` has less than `bytes` free.
void check_free_space(const std::string& file, core::Index bytes);

/// Makes an open file `bytes` long and takes them from the file system, where that is possible: a full disk, a quota or
/// a size limit is met here and not after hours of computing. Throws Error(failure) with the file's name.
void reserve(const Descriptor& descriptor, const std::string& name, core::Index bytes);

/// Extends a file by zeros that are really written, so that it has that room on every file system.
void extend(const Descriptor& descriptor, const std::string& name, core::Index bytes);

/// Reads `count` bytes at `offset`, fewer where the file ends; returns how many, or -1 with errno.
core::Index read_bytes(const Descriptor& descriptor, void* to, core::Index count, core::Index offset);

/// Writes all of `bytes` at `offset`; returns 0 or the error's number.
int write_all(const Descriptor& descriptor, const char* bytes, std::size_t count, core::Index offset);

/// Flushes the folder of a file, where the file system can: the file's name is then on disk, too.
void flush_folder(const std::string& file);

/// Flushes what this machine has of a file to disk. Throws Error(failure).
void flush_to_disk(const Descriptor& descriptor, const std::string& name);

/// The same, and closes it: some file systems (NFS, quotas) tell of a write that failed only then. Throws
/// Error(failure).
void flush_and_close(Descriptor& descriptor, const std::string& name);

}  // namespace annulus::store
