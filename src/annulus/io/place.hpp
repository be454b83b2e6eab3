// Files that appear complete or not at all: made aside under a temporary name, flushed to disk, renamed. Rank 0's work.
#pragma once

#include <string>

#include "annulus/core/types.hpp"

namespace annulus::io {

/// Throws Error(failure) when `file` cannot be made: its folder is missing, no folder or not writable, or something is
/// there already that may not be replaced.
void check_place(const std::string& file, bool overwrite);

/// Throws Error(failure) when the file system that holds `file` has less than `bytes` free.
void check_free_space(const std::string& file, core::Index bytes);

/// Makes `file` (or extends it) to `bytes` bytes and takes them from the file system, where that is possible: a full
/// disk, a quota or a size limit is met here and not after hours of computing. Throws Error(failure).
void reserve(const std::string& file, core::Index bytes);

/// Extends a file by zeros that are really written, so that it has that room on every file system.
void extend(const std::string& file, core::Index bytes);

/// Flushes one file's content to disk, as seen from this node. Throws Error(failure).
void flush_to_disk(const std::string& file);

/// Gives a flushed file its final name and flushes the folder. Throws Error(failure).
void publish(const std::string& temporary, const std::string& file, bool overwrite);

}  // namespace annulus::io
