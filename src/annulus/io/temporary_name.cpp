#include "annulus/io/temporary_name.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "annulus/io/side_files.hpp"

namespace annulus::io {
namespace {

/// Who makes a file: a process of a machine.
struct Maker {
  std::string machine;
  pid_t process = 0;
  std::string start;  // clock ticks from boot to the process's start
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// FNV-1a, 48 bits of it: the same in every build.
std::string hash(const std::string& text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char letter : text) sum = (sum ^ std::uint8_t(letter)) * 0x100000001b3u;
  return fmt::format("{:012x}", sum >> 16);
}

std::string this_machine() {
  std::array<char, 256> host{}, space{};
  gethostname(host.data(), host.size() - 1);
  if (readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) space[0] = '\0';
  return hash(fmt::format("{}|{}|{}", host.data(), first_line("/proc/sys/kernel/random/boot_id"), space.data()));
}

/// A field of /proc/PID/stat, "pid (name) state ...", counted from behind the name, which may hold anything; "0": there
/// is none.
std::string stat_field(pid_t process, int number) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? field : "0";
}
std::string start_of(pid_t process) { return stat_field(process, 22); }

/// One that nobody has waited for is dead, too: in a container without an init process it stays for good.
bool is_dead(const Maker& maker) {
  if (kill(maker.process, 0) != 0 && errno == ESRCH) return true;
  if (stat_field(maker.process, 3) == "Z") return true;
  const std::string start = start_of(maker.process);
  return start != "0" && maker.start != "0" && start != maker.start;  // another process with the same number
}

/// The maker that the name of a temporary file tells, when it is one of a file called `base`.
std::optional<Maker> maker_of(const std::string& name, const std::string& base) {
  const std::string front = base + ".tmp.";
  if (name.rfind(front, 0) != 0) return std::nullopt;
  std::istringstream rest(name.substr(front.size()));
  Maker maker;
  std::string process, random;
  std::getline(rest, maker.machine, '.');
  std::getline(rest, process, '-');
  std::getline(rest, maker.start, '.');
  std::getline(rest, random);
  if (random.size() > 16 && is_side_file(random.substr(16))) random.resize(16);
  const auto [end, error] = std::from_chars(process.data(), process.data() + process.size(), maker.process);
  const bool whole = error == std::errc() && end == process.data() + process.size() && maker.process > 0;
  if (!whole || maker.machine.size() != 12 || maker.start.empty() || random.size() != 16) return std::nullopt;
  return maker;
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

std::string random_digits() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != ssize_t(sizeof number)) {
    std::random_device device;
    number = std::uint64_t(device()) << 32 | device();
  }
  return fmt::format("{:016x}", number);
}

std::string temporary_name(const std::string& file) {
  const pid_t process = getpid();
  return fmt::format("{}.tmp.{}.{}-{}.{}", file, this_machine(), process, start_of(process), random_digits());
}

void remove_leftovers(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string here = this_machine();
  std::error_code error;
  std::filesystem::directory_iterator entry(path.has_parent_path() ? path.parent_path() : ".", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto maker = maker_of(entry->path().filename().string(), path.filename().string());
    std::error_code ignored;
    if (!maker || !std::filesystem::is_regular_file(entry->symlink_status(ignored))) continue;
    if (maker->machine != here) {
      warn_once(entry->path().string());
    } else if (is_dead(*maker)) {
      unlink(entry->path().c_str());  // another run may be first
    }
  }
}

}  // namespace annulus::io
