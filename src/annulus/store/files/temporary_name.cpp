#include "annulus/store/files/temporary_name.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>

#include "annulus/store/files/process_name.hpp"

namespace annulus::store {
namespace {

/// The process that makes a temporary file of `base`, out of the file's name; nothing for every other name.
std::optional<std::string> maker_of(const std::string& name, const std::string& base) {
  const std::string front = base + ".tmp.";
  const std::size_t end = name.rfind('.');
  if (name.rfind(front, 0) != 0 || end < front.size() || name.size() - end != 17) return std::nullopt;
  return name.substr(front.size(), end - front.size());
}

void warn_once(const std::string& path) {
  static std::set<std::string> said;  // a training makes its checkpoint many times
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0 || !said.insert(path).second) return;  // gone meanwhile, or known
  fmt::print(stderr,
             "annulus: warning: {}: {} bytes, written {:.0f} minutes ago by a process of another machine or container; "
             "remove it if nothing there makes this file any more\n",
             path, about.st_size, double(std::time(nullptr) - about.st_mtime) / 60);
}

}  // namespace

std::string temporary_name(const std::string& file) {
  return fmt::format("{}.tmp.{}.{}", file, this_process(), random_digits());
}

void remove_leftovers(const std::string& file) {
  const std::filesystem::path path(file);
  std::error_code error;
  std::filesystem::directory_iterator entry(path.has_parent_path() ? path.parent_path() : ".", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto maker = maker_of(entry->path().filename().string(), path.filename().string());
    std::error_code ignored;
    if (!maker || !std::filesystem::is_regular_file(entry->symlink_status(ignored))) continue;
    const std::optional<ProcessState> life = process_state(*maker);
    if (life == ProcessState::elsewhere) warn_once(entry->path().string());
    if (life == ProcessState::dead) unlink(entry->path().c_str());  // another run may be first
  }
}

}  // namespace annulus::store
