#include "annulus/store/files/process_name.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>

namespace annulus::store {
namespace {

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

/// A field of /proc/PID/stat, "pid (name) state ...", counted from the end of the name, which may hold anything; "0":
/// there is none.
std::string stat_field(pid_t process, int number) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? field : "0";
}
std::string start_of(pid_t process) { return stat_field(process, 22); }

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
  // One whose parent has not waited for it is dead, too: in a container without an init process it stays for good.
  if (stat_field(number, 3) == "Z") return ProcessState::dead;
  const std::string now = start_of(number);
  return now != "0" && start != "0" && now != start ? ProcessState::dead
                                                    : ProcessState::alive;  // another process with the same id
}

std::string random_digits() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != ssize_t(sizeof number)) {
    std::random_device device;
    number = std::uint64_t(device()) << 32 | device();
  }
  return fmt::format("{:016x}", number);
}

}  // namespace annulus::store
