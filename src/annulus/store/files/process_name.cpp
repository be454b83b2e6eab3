#include "annulus/store/files/process_name.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "annulus/core/print.hpp"

namespace annulus::store {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// 48 bits of an FNV-1a hash, which is the same in every build.
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

/// Field `number` of /proc/PID/stat, "pid (name) state ...", in which the state is field 3. Looks only at the text
/// after the name, because the name may contain blanks and parentheses. "0" if there is no such field.
std::string stat_field(pid_t process, int number) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? field : "0";
}
std::string start_of(pid_t process) { return stat_field(process, 22); }

/// The process in `name`, if `name` is the name of a temporary file of `base`; otherwise empty.
std::optional<std::string> maker_of(const std::string& name, const std::string& base) {
  const std::string front = base + ".tmp.";
  const std::size_t end = name.rfind('.');
  if (name.rfind(front, 0) != 0 || end < front.size() || name.size() - end != 17) return std::nullopt;
  return name.substr(front.size(), end - front.size());
}

void warn_once(const std::string& path) {
  static std::set<std::string> said;  // warns once, although a training makes its checkpoint many times
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0 || !said.insert(path).second) return;  // gone, or warned about before
  core::print_to_stderr(
      "annulus: warning: {}: {} bytes, written {:.0f} minutes ago by a process of another machine or container, or "
      "from before a reboot; remove it if nothing there makes this file any more\n",
      path, about.st_size, std::max(0.0, double(std::time(nullptr) - about.st_mtime) / 60));
}

}  // namespace

std::string this_process() {
  const pid_t process = getpid();
  return fmt::format("{}.{}-{}", this_machine(), process, start_of(process));
}

std::optional<ProcessState> process_state(const std::string& process) {
  std::istringstream words(process);
  std::string machine, id, start;
  std::getline(words, machine, '.');
  std::getline(words, id, '-');
  std::getline(words, start);
  pid_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  const bool is_number = error == std::errc() && end == id.data() + id.size() && number > 0;
  if (!is_number || machine.size() != 12 || start.empty()) return std::nullopt;
  if (machine != this_machine()) return ProcessState::elsewhere;
  if (kill(number, 0) != 0 && errno == ESRCH) return ProcessState::dead;
  // A zombie counts as dead. It may stay for ever, because in a container without an init process no parent waits.
  if (stat_field(number, 3) == "Z") return ProcessState::dead;
  const std::string now = start_of(number);
  return now != "0" && start != "0" && now != start ? ProcessState::dead
                                                    : ProcessState::alive;  // another start: the id has a new process
}

std::string random_digits() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != ssize_t(sizeof number)) {
    std::random_device device;
    number = std::uint64_t(device()) << 32 | device();
  }
  return fmt::format("{:016x}", number);
}

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
    if (life == ProcessState::dead) unlink(entry->path().c_str());  // another run may have removed it already
  }
}

std::string utc_text(std::time_t seconds, const char* format) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

}  // namespace annulus::store
