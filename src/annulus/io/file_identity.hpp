// Which file a path leads to, and in which state: what changes when a file is replaced or written to.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"

namespace annulus::io {

using core::Index;

/// As stat(2) has it. The time of the last status change is not among it: a file may be linked or given other rights
/// while it is read, and whoever writes to it changes the time of the last write.
struct FileIdentity {
  Index device = 0;
  Index inode = 0;
  Index bytes = 0;
  Index modified = 0;  ///< ns since 1970
  bool operator==(const FileIdentity&) const = default;
};

/// Looked up on this rank alone. Throws Error(failure) where there is no such file, it cannot be read or is none (a
/// folder, a pipe).
FileIdentity identity_of(const std::string& path);

/// Every rank's own look at the file, which must have the size and time that rank 0 finds; collective. Device and inode
/// may differ between hosts: of a file system that each mounts, or of copies. Throws the same Error(failure) on every
/// rank.
FileIdentity identity_together(const std::string& path, const comm::Communicator& comm);

/// Throws Error(failure) that says what changed unless the file is still what it was. On this rank alone.
void check_unchanged(const std::string& path, const FileIdentity& seen);

}  // namespace annulus::io
