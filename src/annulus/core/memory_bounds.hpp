// What keeps a process from using more memory: its node, its memory cgroup and those above it, its own limits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// "MemAvailable:  123 kB" or "inactive_file 123": the number after every first word of a file of the proc file
/// system; none where there is no such file.
std::map<std::string, Index> numbers_in(const std::string& path);

struct MemoryBound {
  std::string name;       ///< for the user: "memory cgroup /job_7/step_0"
  Index free = 0;         ///< bytes that all who share it can still have together
  std::string shared_as;  ///< processes of a node that give the same word share it; empty: it is this process's alone
};

/// All bounds that the operating system tells of (Linux; elsewhere none):
///   the node       MemAvailable
///   memory cgroups of version 1 and 2, the process's own and all above it that can be seen: the limit less what is
///                  used, where pages of files that can be dropped do not count as used
///   the process    address space and data (ulimit -v and -d) less what it has, its libraries included
/// `root` is put in front of /proc and of the folders of cgroups.
std::vector<MemoryBound> memory_bounds(const std::string& root = "");

}  // namespace annulus::core
