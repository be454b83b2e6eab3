// Finds what limits the memory of a process: its node, its memory cgroup and the groups above it, and its own limits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Reads lines such as "MemAvailable: 123 kB" or "inactive_file 123": maps the first word of each line to the number
/// after the word. Empty if the file does not exist.
std::map<std::string, Index> numbers_in(const std::string& path);

struct MemoryBound {
  std::string name;       ///< for the user: "memory cgroup /job_7/step_0"
  Index free = 0;         ///< bytes that all processes under this bound can still allocate together
  std::string shared_as;  ///< processes of a node with the same text share the bound; empty: only this process has it
};

/// All bounds that the operating system reports (Linux; elsewhere none):
///   the node       MemAvailable
///   memory cgroups of version 1 and 2, the process's own and all visible groups above: limit minus used bytes;
///                  pages of files that the system can drop do not count as used
///   the process    limits of address space and data (ulimit -v and -d) minus what the process uses, libraries included
/// `root` is put in front of the paths of /proc and of cgroups, so that tests can name a folder with their own files.
std::vector<MemoryBound> memory_bounds(const std::string& root = "");

}  // namespace annulus::core
