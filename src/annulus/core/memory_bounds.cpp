#include "annulus/core/memory_bounds.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace annulus::core {
namespace {

namespace fs = std::filesystem;

constexpr Index kib = 1024;
constexpr Index unlimited = Index(1) << 60;  // if there is no limit, cgroups of version 1 report a number above this

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::stringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// Returns the single number in a file; empty if the file does not exist or says "max".
std::optional<Index> number_in(const fs::path& path) {
  std::ifstream file(path);
  if (Index number = 0; file >> number) return number;
  return std::nullopt;
}

/// For one version of memory cgroups: the names of its files, and of the entries in memory.stat for cached file pages.
struct CgroupFiles {
  std::vector<const char*> limits;
  const char* used;
  const char* inactive;
  const char* active;
};
const CgroupFiles version1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
const CgroupFiles version2{{"memory.max", "memory.high"}, "memory.current", "inactive_file", "active_file"};

/// Returns the bytes that are still free in a group; empty if the group has no limit.
std::optional<Index> free_of(const fs::path& group, const CgroupFiles& files) {
  const auto stat = numbers_in((group / "memory.stat").string());
  const auto entry = [&](const char* word, Index otherwise) {
    const auto found = stat.find(word);
    return found == stat.end() ? otherwise : found->second;
  };
  Index limit = entry("hierarchical_memory_limit", unlimited);  // version 1: limits of invisible groups included
  for (const char* file : files.limits) limit = std::min(limit, number_in(group / file).value_or(unlimited));
  if (limit >= unlimited) return std::nullopt;
  const Index pages = entry(files.inactive, 0) + entry(files.active, 0);
  const Index used = std::max<Index>(0, number_in(group / files.used).value_or(0) - pages);
  return std::max<Index>(0, limit - used);
}

/// The folder where the memory cgroups are mounted, and the topmost group that is visible there. mount_of() finds it
/// for version 2 of cgroups if `second` is true, otherwise for version 1.
struct Mount {
  std::string top;
  std::string folder;
};
std::optional<Mount> mount_of(const std::string& root, bool second) {
  // A line of the file: 33 24 0:29 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' '), after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const std::vector<std::string> options = split(after[2], ',');
    const bool has_memory = std::find(options.begin(), options.end(), "memory") != options.end();
    if (second ? after[0] == "cgroup2" : after[0] == "cgroup" && has_memory) return Mount{before[3], before[4]};
  }
  return std::nullopt;
}

/// Returns the path, below the mount point, of the group that /proc/self/cgroup calls `group`.
std::string seen_as(const std::string& group, const std::string& top) {
  if (top == "/") return group;
  const bool below = group.compare(0, top.size(), top) == 0 && (group.size() == top.size() || group[top.size()] == '/');
  return below && group.size() > top.size() ? group.substr(top.size()) : "/";
}

void add_cgroups(const std::string& root, const std::string& group, bool second, std::vector<MemoryBound>& bounds) {
  const std::optional<Mount> mount = mount_of(root, second);
  if (!mount) return;
  // If the group's name comes from another container, the group's folder does not exist here, and the group adds no
  // bound. The loop goes up to the topmost group, which is always visible.
  for (fs::path seen = seen_as(group, mount->top);; seen = seen.parent_path()) {
    const fs::path folder = root + mount->folder + seen.string();
    if (const auto free = free_of(folder, second ? version2 : version1)) {
      bounds.push_back({"memory cgroup " + seen.string(), *free, mount->folder + seen.string()});
    }
    if (seen == seen.root_path() || seen.empty()) break;
  }
}

/// Reads lines such as "Max address space         471859200            471859200            bytes".
void add_limits(const std::string& root, std::vector<MemoryBound>& bounds) {
  struct Limit {
    std::string words;  ///< in /proc/self/limits
    const char* used;   ///< in /proc/self/status, KiB
    const char* name;
  };
  const Limit limits[] = {{"Max address space", "VmSize:", "address space limit (ulimit -v)"},
                          {"Max data size", "VmData:", "data limit (ulimit -d)"}};
  const std::vector<std::string> lines = lines_of(root + "/proc/self/limits");
  auto used = numbers_in(root + "/proc/self/status");
  for (const Limit& limit : limits) {
    for (const std::string& line : lines) {
      if (line.compare(0, limit.words.size(), limit.words) != 0) continue;
      std::stringstream rest(line.substr(limit.words.size()));
      Index bytes = 0;
      if (rest >> bytes) bounds.push_back({limit.name, std::max<Index>(0, bytes - used[limit.used] * kib), ""});
    }
  }
}

}  // namespace

std::map<std::string, Index> numbers_in(const std::string& path) {
  std::map<std::string, Index> numbers;
  for (const std::string& line : lines_of(path)) {
    std::stringstream words(line);
    std::string word;
    if (Index number = 0; words >> word >> number) numbers[word] = number;
  }
  return numbers;
}

std::vector<MemoryBound> memory_bounds(const std::string& root) {
  std::vector<MemoryBound> bounds;
  const auto node = numbers_in(root + "/proc/meminfo");
  if (const auto free = node.find("MemAvailable:"); free != node.end()) {
    bounds.push_back({"free memory of the node", free->second * kib, "node"});
  }
  for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {  // "4:memory:/a/b", "0::/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1), ',');
    const bool memory = std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    if (memory || line.compare(0, 3, "0::") == 0) add_cgroups(root, line.substr(second + 1), !memory, bounds);
  }
  add_limits(root, bounds);
  return bounds;
}

}  // namespace annulus::core
