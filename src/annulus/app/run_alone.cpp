#include "annulus/app/run_alone.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "annulus/core/error.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::app {
namespace {

/// True for environment variables from which MPI sees that a process is a rank of a launcher's job. A process without
/// these variables is a job of one rank. False for settings of the user: OMPI_ALLOW_..., and OMPI_MCA_... except for
/// the names with which mpirun marks a rank (ess, orte, pmix).
bool makes_a_rank(std::string_view variable) {
  constexpr std::array<std::string_view, 13> prefixes{
      "OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_APP_", "OMPI_MCA_ess", "OMPI_MCA_orte", "OMPI_MCA_pmix", "OMPI_FILE_",
      "PMIX_",      "PMI_",           "PMI2_",     "HYDRA_",       "MPI_LOCAL",     "SLURM_"};
  const auto begins_with = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return std::any_of(prefixes.begin(), prefixes.end(), begins_with);
}

}  // namespace

std::string run_self_alone(const char* word, double patience_seconds) {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) <= 0) return "could not be started";
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!makes_a_rank(*variable)) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  std::string argument = word;
  char* const arguments[] = {path.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;  // the child's messages go to /dev/null: only its status matters
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int code = posix_spawn(&child, path.data(), &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return fmt::format("could not be started: {}", std::strerror(code));

  int status = 0;
  const double end = core::wall_seconds() + patience_seconds;
  for (pid_t ended = 0; (ended = waitpid(child, &status, WNOHANG)) != child;) {
    // waitpid() fails if this process was started with SIGCHLD ignored, because the kernel then keeps no status.
    if (ended < 0) return fmt::format("could not be waited for: {}", std::strerror(errno));
    if (core::wall_seconds() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return fmt::format("took more than {:g} s", patience_seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace annulus::app
